/** How Redis is configured, and whether it may lose accepted changes. */
import type { Redis } from "ioredis";
import { reading, type Meaning } from "../../base/redis-reading.ts";
import { setImmediate as nextTurn } from "node:timers/promises";

/** How old the number of replicas may be, ms. */
const COUNTED_FOR_MS = 1000;

/** Longest wait for a replica, ms. */
const WAIT_MS = 500;

/** After a replica was late, nothing waits for this long, ms: a hanging one must not stop intake. */
const PAUSE_MS = 10_000;

/**
 * Lets an answer wait until a replica has what was written for it. Redis acknowledges a write before
 * its replicas have it: without this, a replica that takes over may lack an event that was answered
 * with 202. docs/adr/0015 has the measurement.
 */
export class Replication {
  readonly #redis: Redis;
  readonly #onLate: () => void;
  #replicas = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  #lateUntil = Number.NEGATIVE_INFINITY;
  #next: Promise<void> | undefined;

  /** @param redis the connection of the writes. @param onLate no replica has confirmed in time. */
  constructor(redis: Redis, onLate: () => void) {
    this.#redis = redis;
    this.#onLate = onLate;
  }

  /** Resolves when a replica has all that this connection has written, or cannot have it in time. */
  async confirm(): Promise<void> {
    if (performance.now() < this.#lateUntil || (await this.count()) === 0) return;
    await (this.#next ??= this.#wait());
  }

  /** One WAIT for all writes before it: until it is answered, Redis takes nothing from this connection. */
  async #wait(): Promise<void> {
    await nextTurn();
    this.#next = undefined;
    if ((await this.#redis.wait(1, WAIT_MS)) > 0) return;
    this.#lateUntil = performance.now() + PAUSE_MS;
    this.#onLate();
  }

  /** Replicas at present, or a moment ago. */
  async count(): Promise<number> {
    const now = performance.now();
    if (now - this.#countedAt > COUNTED_FOR_MS) {
      this.#replicas = onlineReplicas(await this.#redis.info("replication"));
      this.#countedAt = now;
    }
    return this.#replicas;
  }
}

/** Replicas that receive what is written now, by INFO. */
const onlineReplicas = (info: string): number =>
  [...info.matchAll(/^slave\d+:.*\bstate=online\b/gm)].length;

export const healthReading = reading(["info"], (info: string) => {
  const field = fieldsOf(info);
  return {
    version: field("redis_version"),
    /** `master` or `slave`. */
    role: field("role"),
    /** Replicas that receive what is written now. */
    replicas: onlineReplicas(info),
    /**
     * False when `min-replicas-to-write` demands replicas and it has none: it rejects writes then. INFO has this field
     * only where replicas are demanded.
     */
    hasEnoughReplicas: field("min_slaves_good_slaves") !== "0",
    appendOnly: field("aof_enabled") === "1",
    /** Whether the last write of the append-only file succeeded. */
    writesSucceed: field("aof_last_write_status") !== "err",
    /** Whether the last rewrite of the append-only file, and the last RDB save, succeeded. */
    rewritesSucceed: field("aof_last_bgrewrite_status") !== "err",
    savesSucceed: field("rdb_last_bgsave_status") !== "err",
    evictionPolicy: field("maxmemory_policy"),
    ...memoryOf(field),
  };
});

export type RedisHealth = Meaning<typeof healthReading>;

const fieldsOf =
  (info: string) =>
  (name: string): string =>
    new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1] ?? "";

const memoryOf = (field: (name: string) => string) => ({
  usedBytes: Number(field("used_memory")),
  /** 0: no limit. */
  limitBytes: Number(field("maxmemory")),
});

type Memory = ReturnType<typeof memoryOf>;

/** Redis rejects the writes of its clients when its memory is at the limit. */
export const isFull = ({ usedBytes, limitBytes }: Memory): boolean =>
  limitBytes > 0 && usedBytes >= limitBytes;

/**
 * Shares of its memory at which no more events are accepted, and at which they are again. What is
 * left is for sync, which needs some to free it.
 */
const CLOSED_AT = 0.85;
const OPEN_AT = 0.8;

/** From this share on, nothing is kept that no change needs. */
const TIGHT_AT = 0.75;

/** Whether so much is used that no more events are accepted. @param wasClosed at the last reading */
export const isClosed = ({ usedBytes, limitBytes }: Memory, wasClosed = false): boolean =>
  limitBytes > 0 && usedBytes >= limitBytes * (wasClosed ? OPEN_AT : CLOSED_AT);

/** Whether a process may still keep events out: it has seen more, and waits until less is used. */
export const mayBeClosed = (memory: Memory): boolean => isClosed(memory, true);

/**
 * An open gate asks Redis again after this, ms: the sooner, the nearer it is to closing. A closed gate asks
 * at each question.
 */
const OPEN_FOR_MS = { least: 100, most: 5000 } as const;

/** Faster than anything fills a Redis, bytes in a millisecond. */
const FASTEST_FILLING = 200_000;

const openForMs = ({ usedBytes, limitBytes }: Memory): number => {
  if (limitBytes === 0) return OPEN_FOR_MS.most;
  const fullInMs = (limitBytes * CLOSED_AT - usedBytes) / FASTEST_FILLING;
  return Math.min(Math.max(fullInMs, OPEN_FOR_MS.least), OPEN_FOR_MS.most);
};

/** Keeps events out while Redis is nearly full. */
export class MemoryGate {
  readonly #redis: Redis;
  #closed = false;
  #share = 0;
  #askAgainAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<boolean> | undefined;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Whether, when it was last asked, Redis was too full for what only people look at. */
  get isTight(): boolean {
    return this.#share >= TIGHT_AT;
  }

  /** Questions that are asked while Redis answers one get its answer. */
  async isClosed(): Promise<boolean> {
    if (!this.#closed && performance.now() < this.#askAgainAt) return false;
    this.#asking ??= this.#ask().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #ask(): Promise<boolean> {
    const askedAt = performance.now();
    const field = fieldsOf(await this.#redis.info("memory"));
    const memory = memoryOf(field);
    this.#share = memory.limitBytes > 0 ? memory.usedBytes / memory.limitBytes : 0;
    this.#closed = isClosed(memory, this.#closed);
    this.#askAgainAt = askedAt + openForMs(memory);
    return this.#closed;
  }
}

const NOT_WRITTEN = "its append-only file cannot be written (is the disk full?)";

const sentencesOf = (problems: readonly (readonly [isThere: boolean, says: string])[]): string[] =>
  problems.flatMap(([isThere, says]) => (isThere ? [says] : []));

/**
 * Each setting or fault that may lose accepted changes, as a sentence.
 * @param isDirGone whether the folder of the embedded Redis was removed
 */
export const durabilityProblems = (
  { appendOnly, evictionPolicy, writesSucceed }: RedisHealth,
  isDirGone: boolean,
): string[] =>
  sentencesOf([
    [isDirGone, "its folder was removed: all that it holds ends with the daemon"],
    [!appendOnly, "appendonly is off: a crash of Redis loses changes"],
    [!writesSucceed, NOT_WRITTEN],
    [
      evictionPolicy !== "noeviction",
      `maxmemory-policy is ${evictionPolicy}: Redis may throw changes away`,
    ],
  ]);

/** Why Redis certainly rejects every write now, as half a sentence; undefined when it does not. */
export function writesRejected({
  hasEnoughReplicas,
  role,
  writesSucceed,
}: RedisHealth): string | undefined {
  if (role === "slave") return "it is a replica";
  if (!hasEnoughReplicas) return "it has no replica, and its min-replicas-to-write demands one";
  return writesSucceed ? undefined : NOT_WRITTEN;
}

/** What Redis failed to write in the background: nothing is lost yet. */
export const savingProblems = ({ rewritesSucceed, savesSucceed }: RedisHealth): string[] =>
  sentencesOf([
    [
      !rewritesSucceed,
      "the last rewrite of its append-only file failed: it grows until the disk is full",
    ],
    [!savesSucceed, "its last RDB save failed: it rejects all writes if it has save points"],
  ]);
