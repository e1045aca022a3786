/**
 * Puts right what a crash left half done, and forgets what is old. Runs as a scheduled job on a
 * queue of its own, since the sync loop may wait an hour for a permit; running twice at once does
 * no harm.
 */
import { Queue, Worker } from "bullmq";
import { LANES } from "../src/sync/lane.ts";
import { deadIdOfEvent } from "../src/sync/dead-letter.ts";
import type { Runtime } from "./runtime.ts";

const SWEEP_QUEUE = "sweep";
const EVERY_MS = 10_000;

const RESCHEDULE_MS = 60_000;

/** Ledger rows that only say "not there" are forgotten after this time, ms. */
const FORGET_AFTER_MS = 90 * 86_400_000;
const FORGET_EVERY_S = 86_400;

/** Records looked at in one round trip. */
const CHUNK = 500;

export interface Sweep {
  close(): Promise<void>;
}

export async function startSweep(runtime: Runtime): Promise<Sweep> {
  const { redis, config, log, throttle } = runtime;
  const options = { connection: redis, prefix: config.QUEUE_PREFIX };
  const queue = new Queue(SWEEP_QUEUE, options);
  queue.on("error", () => {});
  const worker = new Worker(SWEEP_QUEUE, () => sweepAll(runtime), {
    ...options,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 10 },
  });
  worker.on("error", (error) => {
    throttle("sweep.error", (held) => log.warn({ err: error, held }, "sweep.worker_error"));
  });
  worker.on("failed", (_job, error) => log.error({ err: error }, "sweep.failed"));
  const schedule = () => queue.upsertJobScheduler("sweep", { every: EVERY_MS }, { name: "sweep" });
  await schedule();
  // Redis may have lost everything, the schedule too.
  const again = setInterval(() => {
    schedule().catch((error: unknown) => {
      throttle("sweep.error", (held) => log.warn({ err: error, held }, "sweep.worker_error"));
    });
  }, RESCHEDULE_MS);
  return {
    async close() {
      clearInterval(again);
      await worker.close();
      await queue.close();
    },
  };
}

async function sweepAll(runtime: Runtime): Promise<void> {
  await addLostPointers(runtime);
  await buryUnreadable(runtime);
  await buryGivenUp(runtime);
  await forgetOld(runtime);
}

/**
 * Adding is harmless for a record whose job is just on its way: it is not added twice.
 */
async function addLostPointers(runtime: Runtime): Promise<void> {
  const { redis, keys, pointers, log } = runtime;
  let mended = 0;
  for (const lane of LANES) {
    let cursor = "0";
    do {
      const [next, flat] = await redis.zscan(keys.unsynced(lane), cursor, "COUNT", CHUNK);
      cursor = next;
      const crmCodes = flat.filter((_, index) => index % 2 === 0);
      const lost = await pointers.withoutJob(crmCodes);
      if (lost.length > 0) await pointers.add(lost.map((crmCode) => ({ crmCode, lane })));
      mended += lost.length;
    } while (cursor !== "0");
  }
  if (mended > 0) log.info({ records: mended }, "sweep.pointers_restored");
}

async function buryUnreadable(runtime: Runtime): Promise<void> {
  for (const { id, data, timestamp } of await runtime.inbox.takeUnreadable()) {
    const rule = "must be one CloudEvent as JSON; what this job carries is not JSON at all";
    await buryEvent(runtime, "bad_event", `unreadable-${id}`, data, timestamp, rule);
  }
}

/** Events whose workers died over them again and again. */
async function buryGivenUp(runtime: Runtime): Promise<void> {
  for (const job of await runtime.inbox.queue.getFailed(0, CHUNK - 1)) {
    const rule = `could not be worked on (${job.failedReason})`;
    const data = JSON.stringify(job.data);
    await buryEvent(runtime, "defect", `failed-${job.id}`, data, job.timestamp, rule);
    await job.remove();
  }
}

async function buryEvent(
  runtime: Runtime,
  reason: "bad_event" | "defect",
  key: string,
  event: string,
  at: number,
  rule: string,
): Promise<void> {
  const { deadLetters, metrics, log } = runtime;
  await deadLetters.store({
    id: deadIdOfEvent(key),
    reason,
    problems: [{ field: "", rule, kind: "an event" }],
    event,
    source: undefined,
    crmCode: undefined,
    order: undefined,
    at,
  });
  metrics.changes.inc({ outcome: "rejected" });
  metrics.rejected.inc({ reason });
  log.info({ outcome: "rejected", reason }, "change.settled");
}

async function forgetOld(runtime: Runtime): Promise<void> {
  const { redis, keys, ledger, log } = runtime;
  const claimed = await redis.set(keys.ledgerSwept, "1", "EX", FORGET_EVERY_S, "NX");
  if (claimed !== "OK") return;
  const rows = await ledger.forget(Date.now() - FORGET_AFTER_MS);
  if (rows > 0) log.info({ rows }, "sweep.ledger_rows_deleted");
}
