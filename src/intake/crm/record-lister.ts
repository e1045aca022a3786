/** Pages of records, as the lists of a CRM's API have them. */
import { isObject } from "../../core/event/problem.ts";
import { textOf, type Json } from "./json-value.ts";
import {
  isReadable,
  type ApiResult,
  type NotFound,
  type NotRead,
  type RecordApi,
} from "./record-reader.ts";

export interface ListedPage {
  readonly kind: "page";
  readonly records: readonly ListedRecord[];
  /** How many records of this page are left out, because the CRM has deleted them. */
  readonly deleted?: number;
  /** Where the next page begins; undefined: the CRM says that this is the last one. */
  readonly next: string | undefined;
  /** How many records the CRM says that the object has at least; undefined where it does not. */
  readonly total: number | undefined;
}

/** `not_a_list`: an answer that is not what the CRM answers; asked again, it would be the same. */
export type NotListed =
  | NotFound
  | NotRead
  | { readonly kind: "not_a_list"; readonly reason: string };

export interface ListedRecord {
  readonly id: string;
  /** As an event of the same CRM brings it, or its fetch. */
  readonly record: Json;
}

/** What one answer says; `next` and `list` are not checked yet. */
export interface AnswerOfPage {
  readonly list: unknown;
  /** Undefined and null: there is no next page. */
  readonly next: unknown;
  readonly total?: unknown;
}

/**
 * @param idField name of the field that holds the id of a record.
 * @param read undefined: the answer is not what this CRM answers.
 */
export function toPage(
  result: ApiResult,
  idField: string,
  read: (body: Json) => AnswerOfPage | undefined,
): ListedPage | NotListed {
  if (result.kind !== "found") return result;
  const answer = read(result.body);
  if (answer === undefined || !Array.isArray(answer.list)) return NO_LIST;
  const records: ListedRecord[] = [];
  for (const record of answer.list as unknown[]) {
    const id = isObject(record) ? textOf(record[idField]) : "";
    if (!isObject(record) || !isReadable(id)) return noId(idField);
    records.push({ id, record });
  }
  const next = textOf(answer.next);
  const isEnd = answer.next === undefined || answer.next === null;
  if (!isEnd && next === "") return NO_LIST;
  const { total } = answer;
  const isCount = typeof total === "number" && Number.isSafeInteger(total) && total >= 0;
  return {
    kind: "page",
    records,
    next: isEnd ? undefined : next,
    total: isCount ? total : undefined,
  };
}

/** A page with another form of each record. */
export const withRecords = <Page extends ListedPage>(
  page: Page | NotListed,
  change: (record: Json) => Json,
): Page | NotListed =>
  page.kind === "page"
    ? { ...page, records: page.records.map(({ id, record }) => ({ id, record: change(record) })) }
    : page;

/** The objects of a list in an answer. */
export function objectsIn(result: ApiResult, name: string): Json[] | NotListed {
  if (result.kind !== "found") return result;
  const list = result.body[name];
  return Array.isArray(list) ? (list as unknown[]).filter(isObject) : NO_LIST;
}

export const NO_LIST: NotListed = {
  kind: "not_a_list",
  reason: "the answer is not a list of records as this CRM sends it",
};

const noId = (field: string): NotListed => ({
  kind: "not_a_list",
  reason: `a listed record has no usable ${field}`,
});

/**
 * The address of the next page, if it is one of the CRM's API.
 * @param next an address, or a path.
 */
export function sameOrigin(next: unknown, base: string, path: string): string | NotListed {
  const url = typeof next === "string" ? URL.parse(next, base) : null;
  if (url !== null && url.origin === new URL(base).origin && url.pathname.startsWith(path)) {
    return url.href;
  }
  return {
    kind: "not_a_list",
    reason:
      "the next page is said to be at another address than the CRM's, where its token must not go",
  };
}

/** contact → contacts, company → companies: how CRMs name the list of an object. */
export const pluralOf = (object: string): string =>
  /[^aeiou]y$/.test(object)
    ? `${object.slice(0, -1)}ies`
    : /(?:s|x|z|ch|sh)$/.test(object)
      ? `${object}es`
      : `${object}s`;

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
