/**
 * What is wrong with a job that another client has written. BullMQ checks none of this: its scripts and
 * its worker fail on such a job each time, and it is taken back for ever.
 */
import type { Job } from "bullmq";

/** The years 2015 to 9999: BullMQ is no older, and no later date can be written. */
const EARLIEST_MS = Date.UTC(2015);
const LATEST_MS = 253_402_300_799_999;

/** Fields of a job's hash that can keep BullMQ from ending a job whose event was handled. */
export const CAN_KEEP = ["atm", "parent", "parentKey", "rjk"] as const;

/** @param job its hash. @returns why no worker can read it: what it must be. */
export function unreadable(job: Readonly<Record<string, string>>): string | undefined {
  const { ats = "0", data = "{}", opts = "{}", parent = "{}", progress = "0", rjk } = job;
  if (parse(data) === undefined) {
    return "must be one CloudEvent as JSON; the data of this job is not JSON";
  }
  const options = parse(opts) as { repeat?: { every?: unknown; pattern?: unknown } } | null;
  if ((options ?? null) === null) return "must be a job whose options (opts) are JSON";
  if (parse(progress) === undefined) return "must be a job whose progress is JSON";
  if (parse(parent) === undefined) return "must be a job whose parent is JSON";
  if (!/^\d{1,9}$/.test(ats)) return "must be a job whose count of starts (ats) is a number";
  // BullMQ adds the next job of a series before it hands this one to its worker.
  const { every, pattern } = options?.repeat ?? {};
  if (rjk !== undefined && !isOldSeries(rjk) && every === undefined && pattern === undefined) {
    return "must be a job that repeats by every or pattern, or not at all (rjk)";
  }
  return undefined;
}

/** Series of jobs that older versions of BullMQ have begun; newer ones let them end. */
const isOldSeries = (key: string): boolean => key.split(":").length >= 5;

/** @param job that BullMQ could read. @returns what it must be to be handled. */
export function jobFault(job: Job): string | undefined {
  const { attemptsMade, parent, parentKey, timestamp } = job;
  if (!isJobTime(timestamp)) {
    return "must be a job whose timestamp is the time in milliseconds since 1970";
  }
  if (Number.isNaN(attemptsMade)) {
    return "must be a job whose count of attempts (atm) is a number";
  }
  const isChild = parent !== undefined || parentKey !== undefined;
  if (isChild && !(isObject(parent ?? {}) && /.:./.test(parentKey ?? "a:b"))) {
    return "must be a job whose parent is another job";
  }
  return undefined;
}

/** When a job that cannot be handled counts as arrived, ms: its sender's clock may be ahead. */
export const arrivedAt = (timestamp: number, now: number): number =>
  isJobTime(timestamp) ? Math.min(timestamp, now) : now;

/** Whether it can be the time of a job, ms since 1970. */
export const isJobTime = (at: number): boolean =>
  Number.isInteger(at) && at >= EARLIEST_MS && at <= LATEST_MS;

const isObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parse(text: string): unknown {
  try {
    // As BullMQ: an empty text counts as missing.
    return JSON.parse(text === "" ? "0" : text) as unknown;
  } catch {
    return undefined;
  }
}
