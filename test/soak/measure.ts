/** What must not grow: the memory and the open files of a process, the keys and the memory of Redis. */
import { readdir, readFile } from "node:fs/promises";
import type { Environment } from "../chaos/environment.ts";

/** One hour of a run. */
export interface Measured {
  readonly hour: number;
  readonly events: number;
  /** Of the process that is never restarted: memory (MB), open files and sockets. */
  readonly rss: number;
  readonly files: number;
  /** Keys of Redis, and its memory (MB) without the set of seen events, which is kept for days. */
  readonly keys: number;
  readonly redis: number;
  /** Age of the oldest change that waited, as a share of an hour: the longest of the hour. */
  readonly waiting: number;
}

export const METRICS = ["rss", "files", "keys", "redis", "waiting"] as const;

type Sample = Readonly<Record<(typeof METRICS)[number], number>>;

const MB = 2 ** 20;

/** @param hourMs length of an hour. @returns undefined while Redis or the process is down. */
export async function sample(
  { daemons, redis }: Environment,
  hourMs: number,
): Promise<Sample | undefined> {
  const daemon = daemons[0]?.running;
  if (daemon === undefined || redis.client.status !== "ready") return undefined;
  const [status, files, keys, info, seen, age] = await Promise.all([
    readFile(`/proc/${daemon.process.pid}/status`, "utf8"),
    readdir(`/proc/${daemon.process.pid}/fd`),
    redis.client.dbsize(),
    redis.client.info("memory"),
    seenEvents(redis.client),
    daemon.metric("crmsync_oldest_unsynced_age_seconds"),
  ]);
  const number = (pattern: RegExp, text: string) => Number(pattern.exec(text)?.[1]);
  return {
    rss: (number(/^VmRSS:\s+(\d+)/m, status) * 1024) / MB,
    files: files.length,
    keys: keys - seen.keys,
    redis: (number(/^used_memory_dataset:(\d+)/m, info) - seen.bytes) / MB,
    waiting: (age * 1000) / hourMs,
  };
}

/** They are remembered for longer than a run takes. */
async function seenEvents(
  client: Environment["redis"]["client"],
): Promise<{ readonly keys: number; readonly bytes: number }> {
  const keys = await client.keys("*:seen:*");
  const sizes = await Promise.all(keys.map((key) => client.memory("USAGE", key, "SAMPLES", 0)));
  return { keys: keys.length, bytes: sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0) };
}

/** Medians of the samples of one hour, and the longest wait. */
export function summarise(
  hour: number,
  events: number,
  samples: readonly Sample[],
): Measured | undefined {
  if (samples.length === 0) return undefined;
  const of = (name: (typeof METRICS)[number]) => median(samples.map((taken) => taken[name]));
  return {
    hour,
    events,
    rss: of("rss"),
    files: of("files"),
    keys: of("keys"),
    redis: of("redis"),
    waiting: Math.max(...samples.map(({ waiting }) => waiting)),
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
