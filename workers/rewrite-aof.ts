/**
 * Lets the embedded Redis rewrite its append-only file once everything is sent: until then the file
 * holds every value that Redis ever had. An external Redis is its operator's (docs/operate.md).
 */
import { LANES } from "../src/event/lane.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

const CHECK_MS = 5000;

/** Two rewrites are at least this part of the hour window apart. */
const REWRITES_PER_HOUR = 12;

/**
 * While something always waits, the file is rewritten after this many hour windows. After the start it is
 * rewritten once without that wait: a process does not know how old the file is, and may be restarted daily.
 */
const LATEST_HOURS = 24;

export function rewriteAof(runtime: Runtime): Polling | undefined {
  const { config, inbox, keys, log, rarely, redis } = runtime;
  if (config.REDIS_URL !== undefined) return undefined;
  let rewrittenAt = performance.now();
  let isFirst = true;
  /** `written()` at the last rewrite; undefined when something waited then: the file still has its values. */
  let writtenBefore: string | undefined;

  /** Changes with each event added, each state staged, and each dead letter deleted. */
  async function written(): Promise<string> {
    const counters = await redis.mget(inbox.queue.toKey("id"), keys.stagedCount);
    return [...counters, await redis.hlen(keys.deadLetters)].join();
  }

  async function isIdle(): Promise<boolean> {
    const waiting = await Promise.all([
      ...[...LANES.map((lane) => keys.unsynced(lane)), keys.verify].map((key) => redis.zcard(key)),
      inbox.queue.getJobCountByTypes("waiting", "active", "delayed"),
      redis.hlen(keys.thinEvents),
    ]);
    return waiting.every((count) => count === 0);
  }

  return startPolling({
    everyMs: CHECK_MS,
    async step() {
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
    },
    onError: (error) => rarely.warn({ err: error }, "redis.rewrite_failed"),
  });
}
