/** What is read of one BullMQ queue: by our own script, so that it shares the others' round trip. */
import type { Queue } from "bullmq";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { duration } from "./duration.ts";

/** crmsync needs the first five. Clients before BullMQ 6 fill `paused`; flows fill `waiting-children`. */
export const QUEUE_STATES = [
  "wait",
  "prioritized",
  "active",
  "delayed",
  "failed",
  "paused",
  "waiting-children",
] as const;

/** State of jobs → how many. */
export type JobCounts = Readonly<Record<string, number>>;

export interface QueueState {
  readonly jobs: JobCounts;
  /** When the oldest unfinished job was added, ms; active and delayed ones included. */
  readonly oldestAt: number | undefined;
  /** Whether somebody has paused it through BullMQ. */
  readonly paused: boolean;
  /** What somebody has limited it to through BullMQ, for people; undefined: nothing. */
  readonly limit: string | undefined;
  /** Of the 100 delayed jobs that are due next, how many were tried three times or more. */
  readonly failing: number;
}

const SCRIPT = new URL("./lua/queue.lua", import.meta.url);

export function queueReading({ toKey }: Pick<Queue, "toKey">): Reading<QueueState> {
  const keys = ["meta", ...QUEUE_STATES].map((name) => toKey(name));
  return scriptReading(
    SCRIPT,
    keys,
    [toKey("")],
    (reply: [number, string, string, string, string, number, ...number[]]) => {
      const [paused, oldest, atOnce, most, inMs, failing, ...counts] = reply;
      return {
        jobs: Object.fromEntries(QUEUE_STATES.map((state, index) => [state, counts[index] ?? 0])),
        oldestAt: oldest === "" ? undefined : Number(oldest),
        paused: paused === 1,
        limit: limitText(atOnce, most, inMs),
        failing,
      };
    },
  );
}

function limitText(atOnce: string, most: string, inMs: string): string | undefined {
  const limits = [
    ...(atOnce === "" ? [] : [`${atOnce} at once`]),
    ...(most === "" ? [] : [`${most} in ${duration(Number(inMs))}`]),
  ];
  return limits.length === 0 ? undefined : limits.join(" and ");
}
