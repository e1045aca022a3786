/** What a pointer job is in BullMQ's terms: its id, its priority, its place among the others. */
import type { Queue } from "bullmq";
import { digestOfRecord } from "./digest.ts";
import type { Keys } from "./keys.ts";

/**
 * Live before bulk. Every job has a priority, so that it waits in a sorted set: in BullMQ's list, to find one
 * job among a million takes a tenth of a second.
 */
export const LIVE_PRIORITY = 1;
export const BULK_PRIORITY = 10;
export const BULK_RETRY_PRIORITY = 5;

/** BullMQ scores a job that waits by its priority × 2³², plus a running number. */
const SCORE_PER_PRIORITY = 2 ** 32;
export const FIRST_BULK_SCORE = (LIVE_PRIORITY + 1) * SCORE_PER_PRIORITY;

/** Characters of a record's hash that are in the id of its job: 54 bits. */
const HASH_LENGTH = 9;

/**
 * Most jobs that wait in the lane live: as many as an hour of the quota has requests. The other records get
 * their jobs when their turn is near.
 */
export const JOBS_AHEAD = 1000;

/** While fewer jobs than this wait in a lane, records that wait without one get theirs, in their order. */
export const FEW_JOBS = 100;

/** What a script needs to add pointer jobs. */
export interface PointerStep {
  /** The keys of BullMQ's script addPrioritizedJob. */
  readonly keys: readonly string[];
  readonly prefix: string;
  readonly livePriority: number;
  readonly bulkPriority: number;
  readonly jobsAdded: string;
  /** Most jobs that wait in the lane live. */
  readonly jobsAhead: number;
  /** While fewer records wait in the lane bulk, each has its job at once. */
  readonly fewJobs: number;
  readonly idOf: (crmCode: string) => string;
}

/** Keys of BullMQ's script addPrioritizedJob, in its order. */
const KEYS_TO_ADD = "marker meta id prioritized delayed completed active events pc".split(" ");

export const stepOf = (queue: Pick<Queue, "toKey">, keys: Keys): PointerStep => ({
  keys: KEYS_TO_ADD.map((name) => queue.toKey(name)),
  prefix: queue.toKey(""),
  livePriority: LIVE_PRIORITY,
  bulkPriority: BULK_PRIORITY,
  jobsAdded: keys.jobsAdded,
  jobsAhead: JOBS_AHEAD,
  fewJobs: FEW_JOBS,
  idOf: pointerId,
});

/**
 * The id of a record's job: BullMQ adds no second job with the same id. An id must be neither a number nor
 * contain a colon, so it is a letter and a hash. If two crmCodes share an id (less than once in 30,000
 * backlogs of a million), the sweep gives the second record its job when that of the first has ended.
 */
export function pointerId(crmCode: string): string {
  return `r${digestOfRecord(crmCode).slice(0, HASH_LENGTH)}`;
}
