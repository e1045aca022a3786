/**
 * What a comparison knows so far, in one SQLite file: it survives a crash, and the memory stays small
 * however many records there are. It holds crmCodes and fingerprints; the service's values only where
 * they were asked for, and sealed.
 */
import { chmodSync, rmSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { Variant } from "../../core/service-spec/business-relation.ts";
import type { WantedStatus } from "../../core/sync/mapped.ts";
import { PLANNED_KINDS } from "./plan-file.ts";
import { TryLater } from "../../base/user-error.ts";

const SQLITE_BUSY = 5;

/** KiB of pages in memory. */
const CACHE_KIB = 16_384;

const SCHEMA = `
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- kind is NULL until the record was compared.
CREATE TABLE IF NOT EXISTS records (
  code TEXT PRIMARY KEY, position INTEGER, ord TEXT NOT NULL, status TEXT NOT NULL,
  fingerprint TEXT, unclear TEXT, partial TEXT, lacks TEXT, kept TEXT, variant TEXT, ends INTEGER NOT NULL, digests TEXT, owner TEXT,
  kind TEXT, was TEXT, fields TEXT, body TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rejects (
  position INTEGER, place TEXT, code TEXT, kind TEXT NOT NULL, problems TEXT NOT NULL, owner TEXT
);
-- What the service has listed, terminated relations included.
CREATE TABLE IF NOT EXISTS listed (code TEXT PRIMARY KEY, status TEXT NOT NULL) WITHOUT ROWID;
`;

/**
 * A row of the table `records`: a record of the snapshot, and what the comparison has found of it. An active relation
 * that the snapshot lacks has one too, as a record that the CRM had deleted when the snapshot was taken.
 */
export type RecordRow = {
  readonly code: string;
  /** Its number in the snapshot; null: the snapshot lacks it. */
  readonly position: number | null;
  /** The event order. */
  readonly ord: string;
  readonly status: WantedStatus;
  readonly fingerprint: string | null;
  /** Fields of it that the service keeps, as JSON: they were not understood, or not carried; null: none. */
  readonly unclear: string | null;
  /** The fingerprint without what the snapshot does not carry. */
  readonly partial: string | null;
  /** Those fields, as JSON. */
  readonly lacks: string | null;
  /** Fields in which the relation has a value that it keeps, as JSON. */
  readonly kept: string | null;
  readonly variant: Variant | null;
  /** 1: the relation must be terminated. */
  readonly ends: number;
  readonly digests: string | null;
  readonly kind: string | null;
  /** Fingerprint of what the service lists; null: it lists nothing. */
  readonly was: string | null;
  /** Names of the fields that differ, as JSON. */
  readonly fields: string | null;
  /** Of the record, by `owner` of the mapping. */
  readonly owner: string | null;
  /** The service's values, sealed; only for a report with values. */
  readonly body: string | null;
};

/** Where a report says that a record is. */
export const placeOf = ({ position }: Pick<RecordRow, "position">): string | null =>
  position === null ? null : `item ${position + 1}`;

/** Kinds of records that a plan repairs, as a list of SQL. */
export const PLANNED = PLANNED_KINDS.map((kind) => `'${kind}'`).join();

/** Rows that are read at once to be changed. */
const PAGE = 500;

/** Names of fields as a column holds them; null: none. */
export const listOf = (fields: readonly string[]): string | null =>
  fields.length === 0 ? null : JSON.stringify(fields);

export const fieldsIn = (list: string | null): string[] =>
  list === null ? [] : (JSON.parse(list) as string[]);

export class WorkFile {
  readonly #database: DatabaseSync;
  readonly #file: string;
  readonly #statements = new Map<string, StatementSync>();

  /** @throws TryLater, as all that writes: another process works on it, or its disk is full. */
  constructor(file: string, schema = SCHEMA) {
    this.#file = file;
    this.#database = this.#told(() => new DatabaseSync(file));
    try {
      this.#told(() =>
        this.#database.exec(
          `PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
           PRAGMA cache_size = -${CACHE_KIB}; BEGIN EXCLUSIVE; ${schema} COMMIT;`,
        ),
      );
    } catch (error) {
      this.#database.close();
      throw error;
    }
    chmodSync(file, 0o600);
  }

  run(sql: string, ...values: SQLInputValue[]): number {
    return this.#told(() => Number(this.#prepare(sql).run(...values).changes));
  }

  /** @returns false when the table has a row of this key already: it stays as it is. */
  add(table: string, row: Readonly<Record<string, SQLInputValue>>): boolean {
    const columns = Object.keys(row);
    const values = columns.map(() => "?");
    const sql = `INSERT INTO ${table} (${columns.join()}) VALUES (${values.join()}) ON CONFLICT DO NOTHING`;
    return this.run(sql, ...Object.values(row)) > 0;
  }

  /** The first row; undefined when there is none. */
  get(sql: string, ...values: SQLInputValue[]): unknown {
    return this.#prepare(sql).get(...values);
  }

  /** The number that a query for one number returns. */
  count(sql: string): number {
    return (this.get(sql) as { n: number }).n;
  }

  /** While the loop runs, write nothing that the query reads: rows could be skipped or come twice. */
  all<Row>(sql: string, ...values: SQLInputValue[]): IterableIterator<Row> {
    return this.#database.prepare(sql).iterate(...values) as IterableIterator<Row>;
  }

  /** The records that fit a condition, some at a time: these may be changed before the next ones are read. */
  *pages(condition: string): Generator<RecordRow[]> {
    const sql = `SELECT * FROM records WHERE code > ? AND (${condition}) ORDER BY code LIMIT ${PAGE}`;
    for (let after: string | undefined = ""; after !== undefined;) {
      const page: RecordRow[] = [...this.all<RecordRow>(sql, after)];
      if (page.length > 0) yield page;
      after = page.at(-1)?.code;
    }
  }

  /** What a plan repairs, in the order of the snapshot; what the snapshot lacks comes last. */
  planned(): IterableIterator<RecordRow> {
    return this.all(
      `SELECT * FROM records WHERE kind IN (${PLANNED}) ORDER BY position IS NULL, position, code`,
    );
  }

  /** All or nothing; a crash leaves nothing of it. */
  together<T>(work: () => T): T {
    this.#database.exec("BEGIN");
    try {
      const result = work();
      this.#told(() => this.#database.exec("COMMIT"));
      return result;
    } catch (error) {
      // On a full disk SQLite has done so itself.
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  /** What was noted under this name; undefined: nothing. */
  progress(name: string): unknown {
    const row = this.get("SELECT value FROM progress WHERE name = ?", name);
    return row === undefined ? undefined : JSON.parse((row as { value: string }).value);
  }

  note(name: string, value: unknown): void {
    this.run(
      "INSERT INTO progress VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
      name,
      JSON.stringify(value),
    );
  }

  /** As if the comparison had not begun. */
  clear(): void {
    for (const table of ["progress", "records", "rejects", "listed"]) {
      this.run(`DELETE FROM ${table}`);
    }
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  /** Closes it, and removes it: everything in it is known elsewhere by now. */
  remove(): void {
    this.close();
    for (const end of ["", "-wal", "-shm"]) rmSync(this.#file + end, { force: true });
  }

  /** An operator can do something about an error of the file. */
  #told<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      const { errcode, message } = error as { errcode?: number; message: string };
      if (errcode === undefined) throw error;
      throw new TryLater(
        errcode === SQLITE_BUSY
          ? `another comparison works with ${this.#file} now: wait until it ends`
          : `${this.#file} cannot be written (${message}): free its disk, or remove the file if it is damaged`,
      );
    }
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }
}
