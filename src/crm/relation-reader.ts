/** How one CRM finds records that belong to others. */
import type { ListedPage, NotListed } from "./record-lister.ts";
import type { RecordApi } from "./record-reader.ts";

export interface RelationReader {
  /** The field with the id of a record. */
  idField(object: string): string;
  /** So many values in one request. */
  readonly most: number;
  /**
   * The records whose field has one of the values. One that does not exist is left out.
   * @param cursor `next` of the page before
   */
  find(
    api: RecordApi,
    wanted: WantedRecords,
    cursor: string | undefined,
  ): Promise<ListedPage | NotListed>;
  /** For a CRM that keeps apart which records belong together: by id the ids of the others, the most important one first. */
  associated?(
    api: RecordApi,
    object: string,
    ids: readonly string[],
    other: string,
  ): Promise<Map<string, string[]> | NotListed>;
}

export interface WantedRecords {
  readonly object: string;
  readonly field: string;
  readonly values: readonly string[];
  /** Names that the mapping reads. */
  readonly fields: ReadonlySet<string>;
}
