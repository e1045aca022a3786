/**
 * What is kept beside an audit file: the lock of its one writer, and the head of its chain, which must
 * outlive a rotation. Both are SQLite's: the kernel releases the lock however the process ends.
 */
import { DatabaseSync } from "node:sqlite";
import type { Head } from "./line.ts";

const SQLITE_BUSY = 5;

export interface SavedHead extends Head {
  /** The file that the line is in, and how long it was after it. */
  readonly inode: string;
  readonly size: number;
}

export class AuditFileState {
  readonly #database: DatabaseSync;

  /** @throws when another process writes the audit file. */
  constructor(auditFile: string) {
    const file = `${auditFile}.state`;
    this.#database = openDatabase(file);
    try {
      // The lock stays until the database is closed.
      this.#database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
      this.#database.exec("CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY, json TEXT)");
      this.#database.exec("COMMIT");
    } catch (error) {
      this.#database.close();
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw naming(file, error);
      throw new Error(
        "another process writes this file: give each process with the role sync a file of its own",
        { cause: error },
      );
    }
  }

  get head(): SavedHead | undefined {
    const row = this.#database.prepare("SELECT json FROM head").get() as
      | { json: string }
      | undefined;
    return row === undefined ? undefined : (JSON.parse(row.json) as SavedHead);
  }

  save(head: SavedHead): void {
    const text = JSON.stringify(head);
    this.#database.prepare("INSERT OR REPLACE INTO head VALUES (1, ?)").run(text);
  }

  close(): void {
    this.#database.close();
  }
}

function openDatabase(file: string): DatabaseSync {
  try {
    return new DatabaseSync(file);
  } catch (error) {
    throw naming(file, error);
  }
}

const naming = (file: string, error: unknown): Error =>
  new Error(`${file}: ${(error as Error).message}`, { cause: error });
