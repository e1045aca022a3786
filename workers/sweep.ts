/**
 * Repairs what a crash left half done and deletes what is old. Runs as a scheduled job on a queue of
 * its own, because the sync loop may wait an hour for a permit. Two sweeps at once do no harm.
 */
import { Queue, Worker } from "bullmq";
import { SHORT_STREAMS } from "../src/event/add-all.ts";
import type { CrmEvent } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-key.ts";
import { redisWrite } from "../src/ops/redis-script.ts";
import { createDeadLetter } from "../src/sync/dead-letter.ts";
import { LANES } from "../src/sync/lane.ts";
import { expireDeadLetters } from "./expire-dead-letters.ts";
import { startPolling } from "./poll.ts";
import { rejectStuckJobs } from "./reject-stuck-jobs.ts";
import { reportOutcome } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";
import { storeDeadLetter } from "./store-dead-letter.ts";

export const SWEEP_QUEUE = "sweep";
const EVERY_MS = 10_000;

/** How often the schedule is written again: a Redis that lost its data has lost it too, ms. */
const RESCHEDULE_MS = 60_000;

/** Age at which ledger rows that only say "does not exist" are deleted, ms. */
const DELETE_AFTER_MS = 90 * 86_400_000;
const DELETE_EVERY_S = 86_400;

/** Records checked in one round trip. */
const CHUNK = 500;

export interface Sweep {
  close(): Promise<void>;
}

export function startSweep(runtime: Runtime): Sweep {
  const { redis, config, log, throttle } = runtime;
  const options = { connection: redis, prefix: config.QUEUE_PREFIX };
  const onError = (error: unknown) =>
    throttle("sweep", (suppressed) => log.warn({ err: error, suppressed }, "sweep.worker_error"));
  const queue = new Queue(SWEEP_QUEUE, { ...options, streams: SHORT_STREAMS });
  queue.on("error", () => {});
  const worker = new Worker(SWEEP_QUEUE, () => sweep(runtime), {
    ...options,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 10 },
  });
  worker.on("error", onError);
  worker.on("failed", (_job, error) => log.error({ err: error }, "sweep.failed"));
  const scheduling = startPolling({
    everyMs: RESCHEDULE_MS,
    async step() {
      await queue.upsertJobScheduler("sweep", { every: EVERY_MS }, { name: "sweep" });
    },
    onError,
  });
  return {
    async close() {
      await scheduling.close();
      await worker.close();
      await queue.close();
    },
  };
}

async function sweep(runtime: Runtime): Promise<void> {
  await runtime.history.keepSince(runtime.clock.now());
  await restorePointers(runtime);
  await rejectStuckJobs(runtime);
  await rejectFailedFetches(runtime);
  await deleteOldRows(runtime);
  await runtime.ledger.keepWatermarks();
  await runtime.deadLetters.recount();
  await expireDeadLetters(runtime);
  await runtime.retried.forgetEnded();
  await countCancelled(runtime);
}

/**
 * Adds a pointer job for every staged record without one (BullMQ never adds one twice), and gives
 * every live record a place in the order of service and a job of its lane.
 */
async function restorePointers(runtime: Runtime): Promise<void> {
  const { demand, redis, keys, pointers, log } = runtime;
  let restored = 0;
  for (const lane of LANES) {
    let cursor = "0";
    do {
      const [next, flat] = await redis.zscan(keys.unsynced(lane), cursor, "COUNT", CHUNK);
      cursor = next;
      const waiting = pairsOf(flat);
      const crmCodes = waiting.map(([crmCode]) => crmCode);
      // Before the job: a record that has one is served by its place.
      if (lane === "live")
        await demand.restore(waiting.map(([crmCode, rank]) => ({ crmCode, rank })));
      const { inBulk, withoutJob } = await pointers.misplaced(crmCodes);
      if (withoutJob.length > 0)
        await pointers.add(withoutJob.map((crmCode) => ({ crmCode, lane })));
      restored += withoutJob.length;
      // Its process died before it moved the job; while bulk is paused, it would wait for the end.
      if (lane === "live") for (const crmCode of inBulk) await pointers.expedite(crmCode);
    } while (cursor !== "0");
  }
  if (restored > 0) log.info({ records: restored }, "sweep.pointers_restored");
}

/** Member and score of each entry of a scanned sorted set. */
function pairsOf(flat: readonly string[]): [string, string][] {
  return flat.flatMap((text, index) => (index % 2 === 0 ? [[text, flat[index + 1] ?? "0"]] : []));
}

/** Thin events whose workers died again and again. */
async function rejectFailedFetches(runtime: Runtime): Promise<void> {
  const { thinEvents } = runtime;
  for (const job of await thinEvents.queue.getFailed(0, CHUNK - 1)) {
    const taken = await thinEvents.take(job.data);
    // A newer event of the record may have asked for another fetch.
    if (taken !== undefined && !(await thinEvents.hasOtherJob(job.data, job.id))) {
      const event = JSON.parse(taken.event) as CrmEvent;
      const reason = "defect";
      const rule = `could not be fetched (${job.failedReason})`;
      const problems = [{ field: "data.record", rule, kind: "an event without its record" }];
      const { source } = event;
      await storeDeadLetter(
        runtime,
        createDeadLetter(
          { eventKey: eventKey(event) },
          { reason, problems, event: taken.event, source, order: taken.order, at: Date.now() },
        ),
      );
      reportOutcome(runtime, { outcome: "rejected", reason, problems });
      await thinEvents.finish(job.data, taken);
    }
    await job.remove();
  }
}

/** `crmsync bulk cancel` has no metrics of its own. */
async function countCancelled({ bulkChanges, log, metrics }: Runtime): Promise<void> {
  const changes = await bulkChanges.takeCount();
  if (changes === 0) return;
  metrics.changes.inc({ outcome: "cancelled" }, changes);
  log.info({ records: changes }, "bulk.cancelled");
}

async function deleteOldRows({ redis, keys, ledger, log }: Runtime): Promise<void> {
  const claimed = await redisWrite(redis)("SET", keys.ledgerSwept, "1", "EX", DELETE_EVERY_S, "NX");
  if (claimed !== "OK") return;
  const rows = await ledger.forgetAbsent(Date.now() - DELETE_AFTER_MS);
  if (rows > 0) log.info({ rows }, "sweep.ledger_rows_deleted");
}
