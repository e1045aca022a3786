/**
 * A large CRM against a large service: planted differences of every kind, live changes while it
 * compares and repairs, and kill -9 twice in the middle of the repair.
 */
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";
import { plantDifferences, type CrmWorld, type Planted } from "./planted-differences.ts";

export interface ReconcileRun {
  readonly relations: number;
  readonly differences: number;
  readonly livePerSecond: number;
  readonly seed: number;
  readonly redisUrl: string;
  readonly prefix: string;
}

export interface ReconcileResult {
  /** Planted, and not in the report. */
  readonly notFound: readonly string[];
  /** In the report, and not planted. */
  readonly invented: readonly string[];
  /** Relations that are not at the service as they have to be, in words. */
  readonly wrong: readonly string[];
  readonly liveChanges: number;
  /** Requests by operation and status. */
  readonly requests: Readonly<Record<string, number>>;
  /** Most changes that waited in Redis in the lane bulk. */
  readonly mostWaiting: number;
  readonly seconds: number;
}

/** An hour of the quota takes ten seconds. */
const SANDBOX_LIMITS = ["--per-hour", "1000", "--hour-ms", "10000", "--burst", "20"];
const QUOTA = {
  QUOTA_PER_HOUR: "1000",
  QUOTA_HOUR_MS: "10000",
  QUOTA_BURST: "20",
  QUOTA_BURST_MS: "200",
  QUOTA_PACING: "burst",
};
const DEADLINE_MS = 1_800_000;

/** The shares of the repair after which processes are killed. */
const KILLED_AFTER = [0.2, 0.5] as const;

export async function runReconcile(run: ReconcileRun): Promise<ReconcileResult> {
  const startedAt = performance.now();
  await using dir = await tempDir();
  const world = plantDifferences(run);
  const db = join(dir.path, "service.db");
  await using sandbox = await startSandbox({
    db,
    limits: [...SANDBOX_LIMITS, "--burst-ms", "200", "--policy", "sliding"],
  });
  await importInto(db, join(dir.path, "before.ndjson"), world.before());
  const env = {
    REDIS_URL: run.redisUrl,
    QUEUE_PREFIX: run.prefix,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    DATA_DIR: dir.path,
    ...QUOTA,
  };
  const daemon = new RestartableDaemon(env);
  await daemon.start();
  try {
    await waitFor(async () => (await daemon.now.status()).ledger.state === "done", {
      deadlineMs: DEADLINE_MS,
      what: "a warm ledger",
    });
    // What no event tells: the ledger is wrong from here on.
    await importInto(db, join(dir.path, "by-hand.ndjson"), world.byHand());
    const snapshot = join(dir.path, "crm.ndjson");
    await writeLines(snapshot, world.snapshot());
    const live = new LiveChanges(world, daemon, run.livePerSecond);
    const report = join(dir.path, "report.ndjson");
    const command = ["reconcile", snapshot, "--json"];
    const plan = await compare([...command, "--report", report], env);
    live.alsoTouchesPlanted = true;
    const mostWaiting = await applyWithKills([...command, "--apply", plan], env, {
      daemon,
      sandbox,
      world,
    });
    await live.stop();
    await waitUntilSettled(daemon.now, DEADLINE_MS);
    return {
      ...(await compareReports(report, world.planted)),
      wrong: wrongIn(db, world),
      liveChanges: live.sent,
      requests: await sandbox.requests(),
      mostWaiting,
      seconds: (performance.now() - startedAt) / 1000,
    };
  } finally {
    await daemon.kill();
  }
}

class RestartableDaemon {
  readonly #env: Record<string, string>;
  #running: DaemonProcess | undefined;

  constructor(env: Record<string, string>) {
    this.#env = env;
  }

  get now(): DaemonProcess {
    if (this.#running === undefined) throw new Error("The daemon is down.");
    return this.#running;
  }

  async start(): Promise<void> {
    this.#running = await startDaemon(this.#env);
  }

  async kill(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.process.kill("SIGKILL");
    await running?.process.ended;
  }
}

/** So many changes a second, each sent again until it is accepted. */
class LiveChanges {
  alsoTouchesPlanted = false;
  sent = 0;
  readonly #world: CrmWorld;
  readonly #daemon: RestartableDaemon;
  readonly #over = new AbortController();
  readonly #loop: Promise<void>;

  constructor(world: CrmWorld, daemon: RestartableDaemon, perSecond: number) {
    this.#world = world;
    this.#daemon = daemon;
    this.#loop = this.#run(perSecond);
  }

  async stop(): Promise<void> {
    this.#over.abort();
    await this.#loop;
  }

  async #run(perSecond: number): Promise<void> {
    while (!this.#over.signal.aborted) {
      const changes = this.#world.liveChanges(perSecond, this.alsoTouchesPlanted);
      await this.#deliver(changes.map(({ crmCode, ...fields }) => personEvent(crmCode, fields)));
      this.sent += changes.length;
      await delay(1000, undefined, { signal: this.#over.signal }).catch(() => {});
    }
  }

  async #deliver(events: readonly unknown[]): Promise<void> {
    const accepted = async () => (await this.#daemon.now.push(events)).status === 202;
    await waitFor(accepted, { deadlineMs: DEADLINE_MS, what: "live changes are accepted" });
  }
}

/** @returns the file of the plan */
async function compare(args: string[], env: Record<string, string>): Promise<string> {
  await using command = spawnCrmsync(args, { env });
  const { code } = await command.ended;
  if (code !== 0) throw new Error(command.stderr.join("\n"));
  return (JSON.parse(command.stdout[0] ?? "") as { plan: { file: string } }).plan.file;
}

/** @returns the most changes that waited in the lane bulk */
async function applyWithKills(
  args: string[],
  env: Record<string, string>,
  parts: { daemon: RestartableDaemon; sandbox: SandboxProcess; world: CrmWorld },
): Promise<number> {
  const { daemon, sandbox, world } = parts;
  const toCreate = world.planted.filter(({ kind }) => kind === "missing").length;
  let mostWaiting = 0;
  for (const [n, share] of KILLED_AFTER.entries()) {
    await using command = spawnCrmsync(args, { env });
    const created = async () => {
      const { records } = (await daemon.now.status()).backlog.bulk;
      mostWaiting = Math.max(mostWaiting, records);
      return ((await sandbox.requests())["create 201"] ?? 0) >= share * toCreate;
    };
    await waitFor(created, { deadlineMs: DEADLINE_MS, what: "some are sent" });
    command.kill("SIGKILL");
    await command.ended;
    if (n > 0) {
      await daemon.kill();
      await daemon.start();
    }
  }
  await using last = spawnCrmsync(args, { env });
  if ((await last.ended).code !== 0) throw new Error(last.stderr.join("\n"));
  return mostWaiting;
}

async function compareReports(
  file: string,
  planted: readonly Planted[],
): Promise<Pick<ReconcileResult, "notFound" | "invented">> {
  const lines = (await readFile(file, "utf8")).split("\n").filter((line) => line !== "");
  const name = ({ crmCode, kind }: Planted) => `${kind} ${crmCode ?? "without a crmCode"}`;
  const invented: string[] = [];
  const notFound = planted.map(name);
  for (const found of lines.map((line) => name(JSON.parse(line) as Planted))) {
    const at = notFound.indexOf(found);
    if (at === -1) invented.push(found);
    else notFound.splice(at, 1);
  }
  return { notFound, invented };
}

function wrongIn(db: string, world: CrmWorld): string[] {
  const store = new DatabaseSync(db, { timeout: 10_000 });
  try {
    const rows = store.prepare("SELECT relation_status AS status, body FROM relations").iterate();
    const wrong: string[] = [];
    const unseen = new Set(world.expectedCodes());
    for (const { status, body } of rows as Iterable<{ status: string; body: string }>) {
      const relation = JSON.parse(body) as Record<string, unknown> & { crmCode: string };
      unseen.delete(relation.crmCode);
      const problem = world.problemOf({ ...relation, relationStatus: status });
      if (problem !== undefined) wrong.push(`${relation.crmCode}: ${problem}`);
    }
    return [...wrong, ...[...unseen].map((code) => `${code}: is not at the service`)];
  } finally {
    store.close();
  }
}

async function importInto(db: string, file: string, relations: Iterable<unknown>): Promise<void> {
  await writeLines(file, relations);
  await using imported = spawnCrmsync(["sandbox", "import", file, "--db", db]);
  if ((await imported.ended).code !== 0) throw new Error(imported.stderr.join("\n"));
}

async function writeLines(file: string, records: Iterable<unknown>): Promise<void> {
  const out = createWriteStream(file);
  for (const record of records) {
    if (!out.write(`${JSON.stringify(record)}\n`)) await once(out, "drain");
  }
  out.end();
  await once(out, "close");
}
