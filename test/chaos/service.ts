/** The sandbox as a process that can be killed. A table in its database logs every write. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { startSandbox, type SandboxProcess } from "../support/crmsync.ts";
import { ownPort } from "../support/own-port.ts";
import { spawnCrmsync } from "../support/process.ts";
import { waitFor } from "../support/wait-for.ts";

export interface Limits {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
}

/** A trigger logs the result of each write, in the order in which the writes took effect. */
const WRITE_LOG = `
  CREATE TABLE write_log (id INTEGER PRIMARY KEY, crm_code TEXT, marker TEXT, body TEXT);
  CREATE TRIGGER log_write AFTER INSERT ON writes BEGIN
    INSERT INTO write_log (crm_code, marker, body)
      SELECT crm_code, json_extract(NEW.body, '$.postalCode'), NEW.body
      FROM relations WHERE seq = NEW.relation_seq;
  END;`;

const HISTORY = `
  SELECT marker, lag(marker) OVER record AS before, body <> lag(body, 1, '') OVER record AS changed
  FROM write_log WINDOW record AS (PARTITION BY crm_code ORDER BY id)`;

export interface StoredRelation {
  readonly crmCode: string;
  readonly status: string;
  readonly marker: string | null;
}

export class Service implements AsyncDisposable {
  token: string;
  readonly port: number;
  readonly #file: string;
  readonly #args: readonly string[];
  #process: SandboxProcess;

  private constructor(file: string, args: readonly string[], process: SandboxProcess) {
    this.#file = file;
    this.#args = args;
    this.#process = process;
    this.token = process.token;
    this.port = Number(new URL(process.url).port);
  }

  static async start(dir: string, limits: Limits): Promise<Service> {
    const file = join(dir, "service.db");
    const args = Object.entries({
      "per-hour": limits.perHour,
      "hour-ms": limits.hourMs,
      burst: limits.burst,
      "burst-ms": limits.burstMs,
      policy: "sliding",
    }).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const flags = ["--port", String(await ownPort())];
    const service = new Service(file, args, await startSandbox({ db: file, limits: args, flags }));
    const store = service.#open();
    store.exec(WRITE_LOG);
    store.close();
    return service;
  }

  async kill(): Promise<void> {
    this.#process.process.kill("SIGKILL");
    await this.#process.process.ended;
  }

  async restart(): Promise<void> {
    const flags = ["--port", String(this.port)];
    this.#process = await startSandbox({ db: this.#file, limits: this.#args, flags });
  }

  /**
   * Arms a fault as soon as the service is up.
   * @returns a function that disarms it
   */
  async arm(fault: Record<string, unknown>): Promise<() => Promise<void>> {
    const response = await waitFor(
      () =>
        fetch(`${this.#process.faultsUrl}/faults`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(fault),
        }),
      { what: "the fault port answers" },
    );
    if (response.status !== 201) throw new Error(await response.text());
    const { id } = (await response.json()) as { id: number };
    return async () => {
      // If the service was restarted since, the fault is gone already.
      await fetch(`${this.#process.faultsUrl}/faults/${id}`, { method: "DELETE" }).catch(() => {});
    };
  }

  /** Revokes all tokens and creates a new one. */
  async replaceToken(): Promise<void> {
    const before = (await this.#administer("token", "list")) as {
      id: string;
      revokedAt: unknown;
    }[];
    for (const { id, revokedAt } of before) {
      if (revokedAt === null) await this.#administer("token", "revoke", id);
    }
    this.token = ((await this.#administer("token", "create")) as { token: string }).token;
  }

  relations(): StoredRelation[] {
    return this.#read<StoredRelation>(
      `SELECT crm_code AS crmCode, relation_status AS status,
        json_extract(body, '$.postalCode') AS marker FROM relations`,
    );
  }

  /** Number of writes that changed something, and of those that replaced a version with an older one. */
  history(): { changes: number; stale: number } {
    const [row] = this.#read<{ changes: number; stale: number }>(
      `SELECT coalesce(sum(changed), 0) AS changes, coalesce(sum(marker < before), 0) AS stale
       FROM (${HISTORY})`,
    );
    return row ?? { changes: 0, stale: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }

  #open(): DatabaseSync {
    return new DatabaseSync(this.#file, { timeout: 10_000 });
  }

  #read<Row>(sql: string): Row[] {
    const store = this.#open();
    try {
      return store.prepare(sql).all() as Row[];
    } finally {
      store.close();
    }
  }

  async #administer(...command: string[]): Promise<unknown> {
    await using done = spawnCrmsync(["sandbox", ...command, "--db", this.#file, "--json"]);
    await done.ended;
    return JSON.parse(done.stdout.join("\n")) as unknown;
  }
}
