/**
 * Repairs what a crash left half done and deletes what is old. The sync loop may wait an hour for a
 * permit, so it is no part of it. One process sweeps at a time; two sweeps at once do no harm.
 */
import { keepStreamShort } from "../src/event/open-queue.ts";
import { redisWrite } from "../src/ops/redis-script.ts";
import { thinPointerOf } from "../src/state/thin-events.ts";
import { startPolling, type Polling } from "./poll.ts";
import { rejectThinEvent, rejectStuckJobs } from "./reject-event.ts";
import type { Runtime } from "./runtime.ts";
import { join } from "node:path";
import { removeLeftOvers } from "../src/reconcile/left-overs.ts";
import { removeOldListings } from "../src/reconcile/old-listings.ts";

/** Batches in one sweep; the next one, 10 s later, continues. */
const MOST_BATCHES = 50;

async function expireDeadLetters(runtime: Runtime): Promise<void> {
  const { deadLetterExpiry, log, metrics } = runtime;
  for (let batch = 0; batch < MOST_BATCHES; batch += 1) {
    const { expired, more } = await deadLetterExpiry.expire();
    if (expired > 0) {
      metrics.deadLettersExpired.inc(expired);
      log.warn({ records: expired }, "dead_letter.expired");
    }
    if (!more) return;
  }
}

/** How often one of the processes sweeps, ms. */
const EVERY_MS = 10_000;

/** The claim of a sweep ends before the next one is due, ms. */
const CLAIM_MS = EVERY_MS - 1000;

/** Age at which ledger rows that only say "does not exist" are deleted, ms. */
const DELETE_AFTER_MS = 90 * 86_400_000;
const DELETE_EVERY_S = 86_400;

export function startSweep(runtime: Runtime): Polling {
  const { keys, rarely, redis } = runtime;
  const write = redisWrite(redis);
  return startPolling({
    everyMs: EVERY_MS,
    async step() {
      const claim = await write("SET", keys.sweeping, "1", "PX", CLAIM_MS, "NX");
      if (claim === "OK") await sweep(runtime);
    },
    onError: (error) => rarely.error({ err: error }, "sweep.failed"),
  });
}

const STEPS: readonly ((runtime: Runtime) => Promise<unknown>)[] = [
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

/** A BullMQ client of a sender makes the stream of its queue longer. */
async function shortenStreams({ inbox, thinEvents }: Runtime): Promise<void> {
  for (const { queue } of [inbox, thinEvents]) await keepStreamShort(queue);
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
    // The parts themselves still wait.
    if (pointer?.role === "part") await thinEvents.request(pointer, "bulk");
  }
}

/** `crmsync bulk cancel` has no metrics of its own. */
async function countCancelled({ bulkChanges, log, metrics }: Runtime): Promise<void> {
  const changes = await bulkChanges.takeCount();
  if (changes === 0) return;
  metrics.changes.inc({ outcome: "cancelled" }, changes);
  log.info({ records: changes }, "bulk.cancelled");
}

async function deleteOldRows({ clock, redis, keys, ledger, log }: Runtime): Promise<void> {
  const claimed = await redisWrite(redis)("SET", keys.ledgerSwept, "1", "EX", DELETE_EVERY_S, "NX");
  if (claimed !== "OK") return;
  const rows = await ledger.forgetAbsent(clock.now() - DELETE_AFTER_MS);
  if (rows > 0) log.info({ rows }, "sweep.ledger_rows_deleted");
}

const FILES_EVERY_MS = 600_000;

/** Removes what reconciliations have left in DATA_DIR once it is too old to be used: it is personal data. */
export function expireReconcileFiles(runtime: Runtime): Polling {
  const { config, log } = runtime;
  const dir = join(config.DATA_DIR, "reconcile");
  return startPolling({
    everyMs: FILES_EVERY_MS,
    async step() {
      await removeOldListings({ dir, stores: runtime });
      removeLeftOvers(dir);
    },
    onError: (error) => log.warn({ err: error }, "reconcile.list_kept"),
  });
}
