/**
 * Repairs what a crash left half done and deletes what is old. The sync loop may wait an hour for a
 * permit, so it is no part of it. One process sweeps at a time; two sweeps at once do no harm.
 */
import { keepStreamShort } from "../src/core/event/open-queue.ts";
import { redisWrite } from "../src/base/redis-script.ts";
import { thinPointerOf } from "../src/core/state/thin-events.ts";
import type { Step } from "./chores.ts";
import { rejectThinEvent, rejectStuckJobs, type RejectParts } from "./reject-event.ts";
import type { Uses } from "./parts.ts";
import { join } from "node:path";
import { removeLeftOvers, removeOldListings } from "../src/whole/reconcile/left-overs.ts";

/** Batches in one sweep; the next one, 10 s later, continues. */
const MOST_BATCHES = 50;

async function expireDeadLetters({ deadLetterExpiry, log, metrics }: SweepParts): Promise<void> {
  for (let batch = 0; batch < MOST_BATCHES; batch += 1) {
    const { expired, more } = await deadLetterExpiry.expire();
    if (expired > 0) {
      metrics.deadLettersExpired.inc(expired);
      log.warn({ records: expired }, "dead_letter.expired");
    }
    if (!more) return;
  }
}

/** Age at which ledger rows that only say "does not exist" are deleted, ms. */
const DELETE_AFTER_MS = 90 * 86_400_000;
const DELETE_EVERY_S = 86_400;

export function sweep(parts: SweepParts): Step {
  const { keys, redis } = parts;
  const write = redisWrite(redis);
  return async (_signal, everyMs) => {
    // The claim ends before the next sweep is due.
    const claim = await write("SET", keys.sweeping, "1", "PX", 0.9 * everyMs, "NX");
    if (claim === "OK") await sweepOnce(parts);
  };
}

type SweepParts = RejectParts &
  Uses<
    | "bulkChanges"
    | "deadLetterExpiry"
    | "doubles"
    | "keys"
    | "ledger"
    | "redis"
    | "sources"
    | "thinEvents"
  >;

const STEPS: readonly ((parts: SweepParts) => Promise<unknown>)[] = [
  ({ history, clock }) => history.keepSince(clock.now()),
  shortenStreams,
  rejectStuckJobs,
  rejectFailedFetches,
  deleteOldRows,
  ({ deadLetters }) => deadLetters.recount(),
  expireDeadLetters,
  ({ sources }) => sources.forgetOldest(),
  ({ doubles }) => doubles.forgetEnded(),
  countCancelled,
];

/** A step that fails keeps none of the others from their work. @throws the error of the first. */
async function sweepOnce(parts: SweepParts): Promise<void> {
  const errors: unknown[] = [];
  for (const step of STEPS) {
    try {
      await step(parts);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

/** A BullMQ client of a sender makes the stream of its queue longer. */
async function shortenStreams({ inbox, thinEvents }: SweepParts): Promise<void> {
  for (const { queue } of [inbox, thinEvents]) await keepStreamShort(queue);
}

/** Thin events whose workers died again and again, and what another client has added that no worker can read. */
async function rejectFailedFetches(parts: SweepParts): Promise<void> {
  const { rarely, thinEvents } = parts;
  for await (const { id, data, failedReason } of thinEvents.stuck()) {
    const pointer = thinPointerOf(data);
    if (pointer === undefined) {
      rarely.warn({}, "fetch.foreign_job");
    } else {
      const taken = await thinEvents.take(pointer);
      // A newer event of the record may have asked for another fetch.
      if (taken !== undefined && !(await thinEvents.hasOtherJob(pointer, id))) {
        await rejectThinEvent(parts, taken, "defect", `could not be fetched (${failedReason})`);
        await thinEvents.finish(pointer, taken);
      }
    }
    await thinEvents.removeStuck(id);
    // The parts themselves still wait.
    if (pointer?.role === "part") await thinEvents.request(pointer, "bulk");
  }
}

/** `crmsync bulk cancel` has no metrics of its own. */
async function countCancelled({ bulkChanges, log, metrics }: SweepParts): Promise<void> {
  const changes = await bulkChanges.takeCount();
  if (changes === 0) return;
  metrics.changes.inc({ outcome: "cancelled" }, changes);
  log.info({ records: changes }, "bulk.cancelled");
}

async function deleteOldRows({ clock, redis, keys, ledger, log }: SweepParts): Promise<void> {
  const claimed = await redisWrite(redis)("SET", keys.ledgerSwept, "1", "EX", DELETE_EVERY_S, "NX");
  if (claimed !== "OK") return;
  const rows = await ledger.forgetAbsent(clock.now() - DELETE_AFTER_MS);
  if (rows > 0) log.info({ rows }, "sweep.ledger_rows_deleted");
}

/** Removes what reconciliations have left in DATA_DIR once it is too old to be used: it is personal data. */
export function expireReconcileFiles({
  clock,
  config,
  reconciliations,
}: Uses<"clock" | "config" | "reconciliations">): Step {
  const dir = join(config.DATA_DIR, "reconcile");
  return async () => {
    await removeOldListings({ dir, stores: { clock, reconciliations } });
    removeLeftOvers(dir);
  };
}

/** Two rewrites are at least this part of the hour window apart. */
const REWRITES_PER_HOUR = 12;

/**
 * While something always waits, the file is rewritten after this many hour windows. After the start it is
 * rewritten once without that wait: a process does not know how old the file is, and may be restarted daily.
 */
const LATEST_HOURS = 24;

/**
 * Lets the embedded Redis rewrite its append-only file once everything is sent: until then the file
 * holds every value that Redis ever had. An external Redis is its operator's (docs/operate.md).
 */
export function rewriteAof({
  config,
  inbox,
  keys,
  line,
  log,
  redis,
}: Uses<"config" | "inbox" | "keys" | "line" | "log" | "redis">): Step | undefined {
  if (config.REDIS_URL !== undefined) return undefined;
  let rewrittenAt = performance.now();
  let isFirst = true;
  /** `written()` at the last rewrite; undefined when something waited then: the file still has its values. */
  let writtenBefore: string | undefined;

  /** Changes with each event added, each state staged without one, and each dead letter deleted. */
  async function written(): Promise<string> {
    const counters = await redis.mget(inbox.queue.toKey("id"), keys.stagedCount);
    return [...counters, await redis.hlen(keys.deadLetters)].join();
  }

  async function isIdle(): Promise<boolean> {
    const waiting = await Promise.all([
      line.size(),
      inbox.queue.getJobCountByTypes("waiting", "active", "delayed"),
      redis.hlen(keys.thinEvents),
    ]);
    return waiting.every((count) => count === 0);
  }

  return async () => {
    const age = performance.now() - rewrittenAt;
    if (age < config.QUOTA_HOUR_MS / REWRITES_PER_HOUR) return;
    const writtenNow = await written();
    if (writtenNow === writtenBefore) return;
    const idle = await isIdle();
    if (!idle && !isFirst && age < LATEST_HOURS * config.QUOTA_HOUR_MS) return;
    await redis.bgrewriteaof();
    rewrittenAt = performance.now();
    writtenBefore = idle ? writtenNow : undefined;
    isFirst = false;
    log.debug({}, "redis.file_rewritten");
  };
}
