/**
 * Chapter "burst": 500 new records at once on the limits of the specification and a clock that is
 * not compressed. The service counts strictly (sliding windows, by arrival). BURST_RECORDS: how many.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { BURST_REQUESTS, BURST_WINDOW_MS } from "../src/core/service-spec/limits.ts";
import { startDaemon, startSandbox } from "../test/support/crmsync.ts";
import { personEvent } from "../test/support/person-event.ts";
import { tempDir } from "../test/support/temp-dir.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";

const RECORDS = Number(process.env["BURST_RECORDS"] ?? 500);
/** Beyond the lower bound. */
const ALLOWED_S = 2;
const DEADLINE_MS = 300_000;

/** What no schedule can beat: the first burst at once, then one in each window. */
const BOUND_S = ((Math.ceil(RECORDS / BURST_REQUESTS) - 1) * BURST_WINDOW_MS) / 1000;

export async function runBurst(redisUrl: string): Promise<Table> {
  const rows = await Promise.all([1, 3].map((processes) => measure(processes, redisUrl)));
  const title = `${RECORDS} new at once (${BURST_REQUESTS} in ${BURST_WINDOW_MS / 1000} s, not compressed)`;
  return { title, rows };
}

async function measure(processes: number, redisUrl: string) {
  await using dir = await tempDir();
  const db = join(dir.path, "service.db");
  await using sandbox = await startSandbox({ db, limits: ["--policy", "sliding"] });
  const env = {
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: `{bench-${process.pid}-${processes}}`,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  };
  await using daemons = new AsyncDisposableStack();
  const daemon = daemons.use(await startDaemon(env));
  for (let others = 1; others < processes; others += 1) daemons.use(await startDaemon(env));
  const isWarm = async () => (await daemon.status()).ledger.state === "done";
  await waitFor(isWarm, { what: "the warm-up has ended" });
  // By then the requests of the start have left the burst window.
  await delay(2 * BURST_WINDOW_MS);
  const before = await sandbox.requests();
  const startedAt = Date.now();
  const events = Array.from({ length: RECORDS }, (_, n) => personEvent(`b${n}`));
  const response = await daemon.push(events);
  if (response.status !== 202) throw new Error(`/events answered ${response.status}`);
  await waitFor(() => arrivals(db).length >= RECORDS, {
    deadlineMs: DEADLINE_MS,
    what: `${RECORDS} relations`,
  });
  const after = await sandbox.requests();
  const sent = (wanted: RegExp) =>
    Object.entries(after)
      .filter(([name]) => wanted.test(name))
      .reduce((sum, [name, count]) => sum + count - (before[name] ?? 0), 0);
  const times = arrivals(db);
  const lastBursts = (times.at(-1) ?? 0) - (times[BURST_REQUESTS - 1] ?? 0);
  return {
    processes,
    "sent after, s": ((times.at(-1) ?? 0) - startedAt) / 1000,
    "target, s": BOUND_S + ALLOWED_S,
    "lower bound, s": BOUND_S,
    "first burst, ms": (times[BURST_REQUESTS - 1] ?? 0) - startedAt,
    "ms per further burst": Math.round(lastBursts / (RECORDS / BURST_REQUESTS - 1)),
    requests: sent(/./),
    "answered 429": sent(/ 429$/),
  };
}

/** When each record was created, by the service's own log, ms since the epoch. */
function arrivals(db: string): number[] {
  const store = new DatabaseSync(db, { timeout: 10_000 });
  try {
    const writes = store.prepare("SELECT at FROM writes ORDER BY at").all() as { at: string }[];
    return writes.map(({ at }) => Date.parse(at));
  } finally {
    store.close();
  }
}
