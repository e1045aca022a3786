/** Shared state as every process reads it from Redis; nothing here is this process's own. */
import { INBOX_QUEUE } from "../src/event/inbox.ts";
import type { SharedState } from "../src/ops/metrics.ts";
import { SYNC_QUEUE } from "../src/state/pointer-queue.ts";
import { LANES, type Lane } from "../src/spec/lane.ts";
import type { Runtime } from "./runtime.ts";

/** A scrape must not hang on a Redis that is away: then the last values stand, ms. */
const DEADLINE_MS = 2000;

/** Undefined when Redis did not answer in time. */
export async function readSharedState(runtime: Runtime): Promise<SharedState | undefined> {
  if (runtime.redis.status !== "ready") return undefined;
  const deadline = new Promise<undefined>((resolve) => {
    setTimeout(() => resolve(undefined), DEADLINE_MS).unref();
  });
  return Promise.race([read(runtime), deadline]).catch(() => undefined);
}

async function read(runtime: Runtime): Promise<SharedState> {
  const { inbox, pointers, dead, doors, redis, keys, sources, config } = runtime;
  const [inboxJobs, syncJobs, oldest, deadLetters, door, quota, heard, durable, outage] =
    await Promise.all([
      inbox.queue.getJobCounts(),
      pointers.queue.getJobCounts(),
      oldestUnsynced(runtime),
      dead.count(),
      doors.closed(),
      runtime.quotaState(),
      sources.last(),
      isDurable(runtime),
      runtime.outage.lasts(),
    ]);
  const waiting = await Promise.all(LANES.map((lane) => redis.zcard(keys.unsynced(lane))));
  const issuedAt = config.SERVICE_TOKEN_ISSUED_AT;
  const refused = door && (`${door.door}_refused` as const);
  return {
    queueJobs: { [INBOX_QUEUE]: inboxJobs, [SYNC_QUEUE]: syncJobs },
    oldestUnsyncedAge: oldest,
    deadLetters,
    quotaLimit: quota.limit,
    quotaRemaining: quota.remaining,
    quotaReset: quota.resetAt / 1000,
    backlogDrainedAt: quota.drainedAt((waiting[0] ?? 0) + (waiting[1] ?? 0)) / 1000,
    stopped: {
      ...(quota.stopped !== undefined && { [quota.stopped]: true }),
      ...(refused !== undefined && { [refused]: true }),
      unavailable: outage,
    },
    authState: refused ?? "ok",
    tokenIssuedAt: issuedAt === undefined ? undefined : Date.parse(issuedAt) / 1000,
    sources: Object.fromEntries(Object.entries(heard).map(([name, at]) => [name, at / 1000])),
    redisDurable: durable,
  };
}

/** Ages in seconds of the oldest change in each lane, those still in the inbox included. */
async function oldestUnsynced(runtime: Runtime): Promise<Record<Lane, number>> {
  const { redis, keys, inbox } = runtime;
  const now = Date.now();
  const age = (at: number | undefined): number =>
    at === undefined ? 0 : Math.max(0, (now - at) / 1000);
  const scores = await Promise.all(
    LANES.map(async (lane) => {
      const [, score] = await redis.zrange(keys.unsynced(lane), "0", "0", "WITHSCORES");
      return score === undefined ? undefined : Number(score);
    }),
  );
  // Not by getWaiting(), which throws when a foreign job's data is not JSON.
  const first = await redis.lindex(inbox.queue.toKey("wait"), -1);
  const addedAt = first && (await redis.hget(inbox.queue.toKey(first), "timestamp"));
  return {
    live: Math.max(age(scores[0]), age(addedAt ? Number(addedAt) : undefined)),
    bulk: age(scores[1]),
  };
}

/** How often the durability of Redis is looked at, ms: it changes by an operator's hand only. */
const DURABLE_EVERY_MS = 60_000;
const durability = new WeakMap<object, { at: number; durable: boolean }>();

async function isDurable(runtime: Runtime): Promise<boolean> {
  const known = durability.get(runtime.redis);
  if (known !== undefined && Date.now() - known.at < DURABLE_EVERY_MS) return known.durable;
  const [persistence, memory] = await Promise.all([
    runtime.redis.info("persistence"),
    runtime.redis.info("memory"),
  ]);
  const durable =
    /^aof_enabled:1/m.test(persistence) && /^maxmemory_policy:noeviction/m.test(memory);
  durability.set(runtime.redis, { at: Date.now(), durable });
  return durable;
}
