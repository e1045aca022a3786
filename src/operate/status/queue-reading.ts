/** What is read of one BullMQ queue: by our own script, so that it shares the others' round trip. */
import type { Queue } from "bullmq";
import { scriptReading } from "../../base/redis-reading.ts";
import { duration } from "./clock-time.ts";

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

const SCRIPT = new URL("./lua/queue.lua", import.meta.url);

export function queueReading({ toKey }: Pick<Queue, "toKey">) {
  const keys = ["meta", ...QUEUE_STATES].map((name) => toKey(name));
  return scriptReading(
    SCRIPT,
    keys,
    [toKey("")],
    (reply: [number, string, string, string, string, number, ...number[]]) => {
      const [paused, oldest, atOnce, most, inMs, failing, ...counts] = reply;
      const jobs = QUEUE_STATES.map((state, index) => [state, counts[index] ?? 0]);
      return {
        jobs: Object.fromEntries(jobs) as JobCounts,
        /** When the oldest unfinished job was added, ms; active and delayed ones included. */
        oldestAt: oldest === "" ? undefined : Number(oldest),
        /** Whether somebody has paused it through BullMQ. */
        paused: paused === 1,
        /** What somebody has limited it to through BullMQ, for people; undefined: nothing. */
        limit: limitText(atOnce, most, inMs),
        /** Of the 100 delayed jobs that are due next, how many were tried three times or more. */
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
