/**
 * Chapter "latency": from the event to the service's receipt, on an idle daemon, beside the plain worker
 * from `add` to the same receipt. Both take turns on one Redis that writes each command to the disk.
 */
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { startDaemon, startSandbox } from "../test/support/crmsync.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { createPlainWorker } from "./contenders.ts";
import { eventOf, post } from "./ingest.ts";
import { observe, type ObservedService } from "./observed-service.ts";
import type { Table } from "./table.ts";

const PAIRS = Number(process.env["LATENCY_PAIRS"] ?? 500);
/** Changes of each that are not counted: the programs are cold. */
const WARM_UP = 50;
/** Between two changes, ms: both are idle again. */
const GAP_MS = 100;

/** Wide enough that no change waits for its turn. */
const QUOTA = { perHour: 1_000_000, hourMs: 3_600_000, burst: 10_000, burstMs: 5000 };

/** How many times as long as the plain worker crmsync may need. */
const TARGET = 2.5;

export async function runLatency(redisUrl: string): Promise<Table> {
  await using sandbox = await startSandbox();
  await using service = await observe(sandbox.url);
  const prefix = `{bench-${process.pid}-${Date.now()}}`;
  await using daemon = await startDaemon({
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: prefix,
    SERVICE_BASE_URL: service.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: String(QUOTA.perHour),
    QUOTA_BURST: String(QUOTA.burst),
  });
  const plain = createPlainWorker({
    redisUrl,
    prefix: `${prefix}plain`,
    quota: QUOTA,
    service: { url: service.url, token: sandbox.token },
    timeoutMs: 30_000,
    retryMs: 1000,
  });
  const agent = new Agent({ keepAlive: true });
  try {
    await plain.start();
    await waitFor(async () => (await daemon.status()).ledger.state === "done", {
      what: "the ledger is warm",
    });
    const took = { crmsync: [] as number[], plain: [] as number[] };
    for (let n = 0; n < WARM_UP + PAIRS; n += 1) {
      const crmsync = await timed(service, `E${n}`, async (record) => {
        await post(daemon.url, agent, eventOf(n, record));
      });
      const worker = await timed(service, `P${n}`, (record) =>
        plain.add([{ id: record.crmCode, time: Date.now(), record }]),
      );
      if (n < WARM_UP) continue;
      took.crmsync.push(crmsync);
      took.plain.push(worker);
    }
    return tableOf(took.crmsync, took.plain);
  } finally {
    agent.destroy();
    await plain.close();
  }
}

/** How long a change needs to the service, ms. */
async function timed(
  service: ObservedService,
  crmCode: string,
  send: (record: { crmCode: string; type: string; lastName: string }) => Promise<void>,
): Promise<number> {
  await sleep(GAP_MS);
  const lastName = `Muster ${crmCode} end`;
  const arrival = service.arrival(lastName);
  const started = performance.now();
  const sent = send({ crmCode, type: "Person", lastName });
  const at = await arrival;
  await sent;
  return at - started;
}

function tableOf(crmsync: readonly number[], plain: readonly number[]): Table {
  const at = (all: readonly number[], share: number) =>
    all.toSorted((a, b) => a - b)[Math.floor(all.length * share)] ?? Number.NaN;
  const row = (name: string, share: number) => {
    const [ours, theirs] = [at(crmsync, share), at(plain, share)];
    return {
      what: name,
      "crmsync, ms": ours.toFixed(1),
      "plain worker, ms": theirs.toFixed(1),
      ratio: Number((ours / theirs).toFixed(2)),
      target: TARGET,
    };
  };
  return {
    title: "From the event to the service's receipt, on an idle daemon",
    rows: [row("p50", 0.5), row("p99", 0.99)],
  };
}
