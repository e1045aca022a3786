/**
 * Every write that a sandbox has carried out, read from its database while it runs: the sandbox
 * itself keeps only the last 20 of a relation.
 */
import { DatabaseSync } from "node:sqlite";

/** Less than the sandbox needs for 20 writes of one relation. */
const READ_EVERY_MS = 20;

export interface Write {
  readonly crmCode: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The version of the record, which the workloads put into the field postalCode. */
  readonly version: string;
}

export class WriteLog implements Disposable {
  readonly #store: DatabaseSync;
  readonly #newest: ReturnType<DatabaseSync["prepare"]>;
  readonly #timer: NodeJS.Timeout;
  readonly #writes = new Map<string, Write>();
  #readUntil = "";

  /** @param file of the sandbox's database. */
  constructor(file: string) {
    this.#store = new DatabaseSync(file, { timeout: 10_000, readOnly: true });
    this.#newest = this.#store.prepare(
      `SELECT crm_code AS crmCode, writes.version AS number, at,
         json_extract(writes.body, '$.postalCode') AS version
       FROM writes JOIN relations ON relations.seq = relation_seq WHERE at >= ? ORDER BY at`,
    );
    this.#timer = setInterval(() => this.#read(), READ_EVERY_MS);
  }

  /** All writes until now, oldest first. */
  all(): Write[] {
    this.#read();
    return [...this.#writes.values()];
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#store.close();
  }

  #read(): void {
    const rows = this.#newest.all(this.#readUntil) as {
      crmCode: string;
      number: number;
      at: string;
      version: string;
    }[];
    for (const { crmCode, number, at, version } of rows) {
      this.#writes.set(`${crmCode} ${number}`, { crmCode, at: Date.parse(at), version });
      this.#readUntil = at;
    }
  }
}
