/**
 * Repairs what a crash left half done and deletes what is old. The sync loop may wait an hour for a
 * permit, so it is no part of it. One process sweeps at a time; two sweeps at once do no harm.
 */
import { keepStreamShort } from "../src/event/open-queue.ts";
import { redisWrite } from "../src/ops/redis-script.ts";
import { pairsOf } from "../src/state/scan.ts";
import { thinPointerOf } from "../src/state/thin-events.ts";
import { LANES, type Lane } from "../src/sync/lane.ts";
import { expireDeadLetters } from "./expire-dead-letters.ts";
import { startPolling, type Polling } from "./poll.ts";
import { rejectThinEvent } from "./reject-event.ts";
import { rejectStuckJobs } from "./reject-stuck-jobs.ts";
import type { Runtime } from "./runtime.ts";

/** How often one of the processes sweeps, ms: how long a record may be without its job. */
const EVERY_MS = 10_000;

/** The claim of a sweep ends before the next one is due, ms. */
const CLAIM_MS = EVERY_MS - 1000;

/** While a process rests, no record waits: a sweep only deletes what is old, ms. */
const REST_MS = 300_000;

/** Age at which ledger rows that only say "does not exist" are deleted, ms. */
const DELETE_AFTER_MS = 90 * 86_400_000;
const DELETE_EVERY_S = 86_400;

/** Records that are looked at in one round trip: Redis does nothing else for less than a millisecond. */
const CHUNK = 250;

/** Records of one lane in one sweep; a million take half an hour. */
const RECORDS_AT_ONCE = 5000;

export function startSweep(runtime: Runtime): Polling {
  const { keys, rarely, redis, rest } = runtime;
  const write = redisWrite(redis);
  return startPolling({
    everyMs: EVERY_MS,
    rest,
    restMs: REST_MS,
    async step() {
      const claim = await write("SET", keys.sweeping, "1", "PX", CLAIM_MS, "NX");
      if (claim === "OK") await sweep(runtime);
    },
    onError: (error) => rarely.error({ err: error }, "sweep.failed"),
  });
}

const STEPS: readonly ((runtime: Runtime) => Promise<unknown>)[] = [
  removeUnreadablePointers,
  restorePointers,
  ({ history, clock }) => history.keepSince(clock.now()),
  shortenStreams,
  keepPausedJobs,
  rejectStuckJobs,
  rejectFailedFetches,
  deleteOldRows,
  ({ ledger }) => ledger.keepWatermarks(),
  ({ deadLetters }) => deadLetters.recount(),
  expireDeadLetters,
  ({ retried }) => retried.forgetEnded(),
  ({ sources }) => sources.forgetOldest(),
  countCancelled,
];

/** A step that fails keeps none of the others from their work. @throws the error of the first. */
async function sweep(runtime: Runtime): Promise<void> {
  const errors: unknown[] = [];
  for (const step of STEPS) {
    try {
      await step(runtime);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

/** BullMQ fails on each of these again and again. The next step gives their records new jobs. */
async function removeUnreadablePointers({ pointers, rarely }: Runtime): Promise<void> {
  if ((await pointers.removeUnreadable()) === 0) return;
  rarely.warn({}, "sync.foreign_job");
}

/**
 * Adds pointer jobs that were lost, and gives live records a place in the order of service and a job of their
 * lane. One sweep looks at the newest records, those that a crash may have left half done, and goes on
 * through the others where the last sweep of any process has ended.
 */
async function restorePointers(runtime: Runtime): Promise<void> {
  const { redis, keys, log } = runtime;
  let restored = 0;
  for (const lane of LANES) {
    const key = keys.unsynced(lane);
    const newest = await redis.zrange(key, String(-CHUNK), "-1", "WITHSCORES");
    restored += await restoreSome(runtime, lane, pairsOf(newest));
    let cursor = (await redis.hget(keys.swept, lane)) ?? "0";
    for (let looked = 0; looked < RECORDS_AT_ONCE; looked += CHUNK) {
      const [next, flat] = await redis.zscan(key, cursor, "COUNT", CHUNK);
      restored += await restoreSome(runtime, lane, pairsOf(flat));
      cursor = next;
      if (cursor === "0") break;
    }
    await redisWrite(redis)("HSET", keys.swept, lane, cursor);
  }
  if (restored > 0) log.info({ records: restored }, "sweep.pointers_restored");
}

/** @returns how many of these records had lost their job. */
async function restoreSome(
  { demand, pointers }: Runtime,
  lane: Lane,
  waiting: readonly [crmCode: string, since: string][],
): Promise<number> {
  const crmCodes = waiting.map(([crmCode]) => crmCode);
  // The place comes before the job: a record with a job is served by its place.
  if (lane === "live") await demand.restore(waiting.map(([crmCode, rank]) => ({ crmCode, rank })));
  const { ended, inBulk, withoutJob } = await pointers.misplaced(crmCodes);
  // BullMQ adds no new job while one that has ended is kept under the same id.
  await pointers.removeAll(ended);
  // The sync loop adds the missing jobs of bulk records, in their order.
  if (lane === "bulk") for (const crmCode of ended) await pointers.restore(crmCode);
  const restored = lane === "live" ? await pointers.restoreLost([...withoutJob, ...ended]) : 0;
  // The process that staged the live change died before it moved the job out of the lane
  // bulk, which may be paused.
  if (lane === "live") for (const crmCode of inBulk) await pointers.expedite(crmCode);
  return restored;
}

/** A BullMQ client of a sender makes the stream of its queue longer. */
async function shortenStreams({ inbox, pointers, redis, thinEvents }: Runtime): Promise<void> {
  for (const { queue } of [inbox, pointers, thinEvents]) await keepStreamShort(redis, queue);
}

/** Keeps jobs that were added or moved since a queue was paused, not by crmsync (paused-jobs.ts). */
async function keepPausedJobs({ inbox, thinEvents }: Runtime): Promise<void> {
  for (const owner of [inbox, thinEvents]) await owner.keepPaused();
}

/** Thin events whose workers died again and again, and what another client has added that no worker can read. */
async function rejectFailedFetches(runtime: Runtime): Promise<void> {
  const { rarely, thinEvents } = runtime;
  for await (const { id, data, failedReason } of thinEvents.stuck()) {
    const pointer = thinPointerOf(data);
    if (pointer === undefined) {
      rarely.warn({}, "fetch.foreign_job");
    } else {
      const taken = await thinEvents.take(pointer);
      // A newer event of the record may have asked for another fetch.
      if (taken !== undefined && !(await thinEvents.hasOtherJob(pointer, id))) {
        await rejectThinEvent(runtime, taken, "defect", `could not be fetched (${failedReason})`);
        await thinEvents.finish(pointer, taken);
      }
    }
    await thinEvents.removeStuck(id);
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
