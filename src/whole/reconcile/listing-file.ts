/**
 * The records of a CRM as its API has listed them, in one SQLite file: a page and the place where the
 * next one begins are kept together, so that a crash continues there. It holds personal data: each
 * record is sealed, if there is a STATE_KEY.
 */
import { createHash } from "node:crypto";
import { parseExactly } from "../../core/event/exact-json.ts";
import { UserError } from "../../base/user-error.ts";
import type { ListedPage } from "../../intake/crm/record-lister.ts";
import type { Item } from "../../intake/snapshot/item.ts";
import type { Scan } from "../../intake/snapshot/scan-file.ts";
import type { Sealing } from "../../core/state/sealing.ts";
import { SOURCE } from "./read-events.ts";
import { WorkFile } from "./work-file.ts";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
  position INTEGER PRIMARY KEY, object TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
  UNIQUE (object, id)
);
`;

/** How far the list of one object is. */
export interface ObjectProgress {
  /** Where the next page begins; undefined before the first page, and after the last one. */
  readonly cursor?: string | undefined;
  readonly isComplete: boolean;
  readonly records: number;
  /** Pages in a row that brought no new record. */
  readonly idlePages: number;
  /** How many records the CRM has said that there are. */
  readonly total?: number | undefined;
  /** How often it began again because the CRM did not know the cursor any more. */
  readonly restarts: number;
}

/** When the first request was sent, less the margin: no record in it is older. */
export interface ListingBegin {
  readonly takenAt: number;
}

/** The plan that needs this listing. */
export interface PlanOfListing {
  readonly id: string;
  /** If the plan was not begun by then, it cannot be used any more, ms. */
  readonly until: number;
}

type Row = { readonly object: string; readonly id: string; readonly body: string };

const NOTHING: ObjectProgress = { isComplete: false, records: 0, idlePages: 0, restarts: 0 };

export class ListingFile {
  readonly #work: WorkFile;
  readonly #sealing: Pick<Sealing, "seal" | "open">;

  /** @throws UserError when another process works with it. */
  constructor(file: string, sealing: Pick<Sealing, "seal" | "open">) {
    this.#work = new WorkFile(file, SCHEMA);
    this.#sealing = sealing;
  }

  begin(): ListingBegin | undefined {
    return this.#work.progress("begin") as ListingBegin | undefined;
  }

  noteBegin(begin: ListingBegin): void {
    this.#work.note("begin", begin);
  }

  plan(): PlanOfListing | undefined {
    return this.#work.progress("plan") as PlanOfListing | undefined;
  }

  notePlan(plan: PlanOfListing): void {
    this.#work.note("plan", plan);
  }

  progress(object: string): ObjectProgress {
    const known = this.#work.progress(`object ${object}`) as ObjectProgress | undefined;
    return known ?? NOTHING;
  }

  /** Requests of all runs of this listing. */
  requests(): number {
    return (this.#work.progress("requests") as number | undefined) ?? 0;
  }

  /** Keeps a page and the progress after it. Of a record that comes twice, the later copy is kept. */
  async keepPage(
    object: string,
    { records, deleted = 0, next, total }: ListedPage,
    requests: number,
  ): Promise<ObjectProgress> {
    const rows: Row[] = [];
    for (const { id, record } of records) {
      const body = await this.#sealing.seal(JSON.stringify(record), aboutOf(object, id));
      rows.push({ object, id, body });
    }
    return this.#work.together(() => {
      const before = this.progress(object);
      let added = 0;
      for (const row of rows) if (this.#keep(row)) added += 1;
      const expected = before.total ?? total;
      const progress: ObjectProgress = {
        ...before,
        cursor: next,
        isComplete: next === undefined,
        records: before.records + added,
        idlePages: added + deleted === 0 ? before.idlePages + 1 : 0,
        total: expected && expected - deleted,
      };
      this.#work.note(`object ${object}`, progress);
      this.#work.note("requests", requests);
      return progress;
    });
  }

  /** As if the listing of this object had not begun. */
  restart(object: string): void {
    this.#work.together(() => {
      const { restarts } = this.progress(object);
      this.#work.run("DELETE FROM records WHERE object = ?", object);
      this.#work.note(`object ${object}`, { ...NOTHING, restarts: restarts + 1 });
    });
  }

  /** SHA-256 over all records, and their size. */
  scan(): Scan {
    const hash = createHash("sha256");
    let bytes = 0;
    for (const { object, id, body } of this.#rows()) {
      hash.update(`${object}\t${id}\t${body}\n`);
      bytes += body.length;
    }
    return { hash: hash.digest("hex"), bytes, encoding: "utf-8" };
  }

  /** Each record as the event that it stands for. @param name of the snapshot, for messages */
  async *items(name: string, onBytes?: (bytes: number) => void): AsyncGenerator<Item> {
    for (const { object, id, body } of this.#rows()) {
      const subject = aboutOf(object, id);
      const record = parseExactly(await this.#open(name, body, subject));
      onBytes?.(body.length);
      const value = {
        specversion: "1.0",
        id: subject,
        source: SOURCE,
        type: "crm.record.updated",
        subject,
        data: { record, partial: true },
      };
      yield { place: subject, value };
    }
  }

  close(): void {
    this.#work.close();
  }

  remove(): void {
    this.#work.remove();
  }

  async #open(name: string, body: string, subject: string): Promise<string> {
    try {
      return await this.#sealing.open(body, subject);
    } catch {
      throw new UserError(
        `${name} was sealed with another STATE_KEY, or is damaged: list the CRM again`,
      );
    }
  }

  #rows(): IterableIterator<Row> {
    return this.#work.all<Row>("SELECT object, id, body FROM records ORDER BY position");
  }

  /** @returns whether the record is new. */
  #keep({ object, id, body }: Row): boolean {
    const sql = "INSERT INTO records (object, id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    if (this.#work.run(sql, object, id, body) > 0) return true;
    this.#work.run("UPDATE records SET body = ? WHERE object = ? AND id = ?", body, object, id);
    return false;
  }
}

/** What a record is sealed for, and the subject of its event. */
const aboutOf = (object: string, id: string): string => `${object}/${id}`;
