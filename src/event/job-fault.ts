/** The time of a job that another client has written. BullMQ does not check it. */
import type { Job } from "bullmq";

/** The years 2015 to 9999: BullMQ is no older, and no later date can be written. */
const EARLIEST_MS = Date.UTC(2015);
const LATEST_MS = 253_402_300_799_999;

/** @param job that BullMQ could read. @returns what it must be to be handled. */
export function jobFault({ timestamp }: Pick<Job, "timestamp">): string | undefined {
  return isJobTime(timestamp)
    ? undefined
    : "must be a job whose timestamp is the time in milliseconds since 1970";
}

/** When a job that cannot be handled counts as arrived, ms: its sender's clock may be ahead. */
export const arrivedAt = (timestamp: number | undefined, now: number): number =>
  timestamp !== undefined && isJobTime(timestamp) ? Math.min(timestamp, now) : now;

/** Whether it can be the time of a job, ms since 1970. */
export const isJobTime = (at: number): boolean =>
  Number.isInteger(at) && at >= EARLIEST_MS && at <= LATEST_MS;
