import type { JobType } from "bullmq";

/**
 * The states in which a BullMQ job holds its event. Each stands before the states that the job can reach
 * next, so that a job which moves while they are read in this order is not missed. The exception is a job
 * that a worker takes meanwhile: it becomes active after `active` was read. BullMQ 6 itself no longer knows
 * `paused`, where older clients put jobs; flows hold jobs back in `waiting-children`.
 */
export const JOB_STATES = [
  "active",
  "delayed",
  "waiting-children",
  "wait",
  "paused" as JobType,
  "prioritized",
  "failed",
] as const satisfies readonly JobType[];
