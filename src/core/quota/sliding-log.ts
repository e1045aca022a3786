/**
 * What all processes share in Redis: the exact count of requests, and the state of pacing. The count is a sliding log
 * per window: a permit holds a slot in both from the moment it is given until its reply has come and the window has
 * passed, so the slots are exactly the requests that the service may still count. The slot of a process that
 * died ends by itself, a little after its window.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis, RedisOptions } from "ioredis";
import { scriptReading, type Reading } from "../../base/redis-reading.ts";
import { redisScript, redisWrites, WorkRedis, type RedisScript } from "../../base/redis-script.ts";
import { SLICES_KEPT, sliceMs } from "../sync/rank.ts";
import { HOUR_PARTS, NEW, pacingOf } from "./pacing.ts";
import type { PaceRules, PaceState, PacingView } from "./pacing.ts";

/** Every Redis key of the quota. All are under `<prefix>:quota:` and share the prefix's hash tag. */
export function quotaKeys(prefix: string) {
  const root = `${prefix}:quota`;
  return {
    /**
     * Hash of the sliding log: `epoch` (its name), `taken` (slots so far), `hour` and `burst` (limits), `pacing`
     * (PaceState in pacing.ts, as JSON).
     */
    log: `${root}:log`,
    /** Sorted set permit id → when its slot of the hour ends by itself, ms. */
    hour: `${root}:log:hour`,
    /** The same for the burst. */
    burst: `${root}:log:burst`,
    /** The live line, as src/core/state/keys.ts names it: sorted set crmCode → rank, or when it is due. */
    liveLine: `${prefix}:line:live`,
    /** Name of a slice without its number, likewise: counter of live changes. */
    flow: `${root}:flow`,
  } as const;
}

export interface QuotaLimits extends PaceRules {
  /** Hash-tagged prefix of every key, as `{crmsync}`. */
  readonly prefix: string;
  readonly burstMs: number;
  /** Requests of the hour that bulk work leaves alone. */
  readonly liveReserve: number;
}

/** What snapshot.lua returns, as JSON. Times in ms since the epoch, by Redis' clock. */
interface Shared extends Pick<PacingView, "returns" | "demand" | "waiting"> {
  readonly now: number;
  /** The name of the log: another one means that Redis has forgotten slots. */
  readonly epoch: string;
  /** Slots of the hour taken so far, ended ones too, and those that are in use. */
  readonly taken: number;
  readonly running: number;
  /** Those in use that the service has counted and we have not sent. */
  readonly foreign: number;
  /** JSON of PaceState; empty before the first permit. */
  readonly pacing: string;
  /** Another one: slots were taken meanwhile, or the pacing has changed. */
  readonly version: string;
  /** The rank of the live record that is served next; absent when none waits. */
  readonly lowestRank?: number | undefined;
  /** Absent: no process has written the limits yet. */
  readonly limit?: number;
  readonly burst?: number;
  /** When the next spent slot returns, and the last one; now when none is spent. */
  readonly nextReturnAt: number;
  readonly allReturnedAt: number;
}

export type QuotaSnapshot = ReturnType<typeof snapshotOf>;

function snapshotOf(reply: string, limits: QuotaLimits) {
  const shared = JSON.parse(reply) as Shared;
  const { limit = limits.perHour, burst = limits.burst, now } = shared;
  const state = shared.pacing === "" ? NEW : (JSON.parse(shared.pacing) as PaceState);
  const pacing = pacingOf(state, now, limits.pacing);
  const remaining = Math.max(0, limit - shared.running);
  const { hourMs, liveReserve } = limits;
  return { ...shared, limit, burst, remaining, state, pacing, hourMs, liveReserve };
}

const SNAPSHOT = new URL("./lua/snapshot.lua", import.meta.url);

function snapshotCall({ prefix, hourMs }: QuotaLimits) {
  const { log, hour, liveLine, flow } = quotaKeys(prefix);
  const args = [hourMs, HOUR_PARTS, sliceMs(hourMs), SLICES_KEPT];
  return [[log, hour, liveLine, flow], args] as const;
}

/** Reads what is shared, for processes that send nothing. */
export const snapshotReading = (limits: QuotaLimits): Reading<QuotaSnapshot> =>
  scriptReading(SNAPSHOT, ...snapshotCall(limits), (reply: string) => snapshotOf(reply, limits));

/** When the slots of a permit end: ms from now, 0 at once, -1 as it is. */
export type Slots = readonly [permitId: string, hour: number, burst: number];
export const STAYS = -1;

export interface SharedOptions extends QuotaLimits {
  /** Only its options are used. */
  readonly redis: Redis;
  /** False: limits that are in Redis stay. */
  readonly setsLimits: boolean;
}

/** Part of its hold at which a permit is too old to be spent; the rest is for the way to the service. */
const FRESH_PART = 0.4;

/**
 * A slot outlives its window by this part of it and the round trip to the service, at most by the larger
 * part: the service counts by another clock, which may be slower.
 */
const MARGIN = 0.001;
const MARGIN_MOST = 0.05;

/** How often a process asks, at least, whether Redis still has its slots: twice in a burst's window, ms. */
const CHECK_LEAST_MS = 250;

/** Pause after a failed try to write to Redis, ms. */
const AGAIN_MS = 500;

export class SlidingLog {
  /** Resolves when Redis knows the limits. */
  readonly ready: Promise<void>;
  readonly #options: SharedOptions;
  readonly #onError: (error: unknown) => void;
  readonly #keys: ReturnType<typeof quotaKeys>;
  /** How long the slots of a process that died last, ms: see docs/quota.md. */
  readonly lasts: { readonly hour: number; readonly burst: number };
  /** By how much that is longer than the window of the burst, ms. */
  readonly #holdMs: number;
  readonly #redis: WorkRedis;
  readonly #read: RedisScript<string>;
  readonly #take: RedisScript<number | null>;
  readonly #checkMs: number;
  readonly #checking: NodeJS.Timeout;
  /** The slots of this process, for a Redis that has forgotten them: when they end, by performance.now(). */
  readonly #own = new Map<string, { hour: number; burst: number }>();
  /** Permits whose requests are under way: until their slots are ended they last, however late the service counts. */
  readonly underWay = new Set<string>();
  #epoch = "";
  /** From when on the burst's slots cannot lack one that still counts, by performance.now(). */
  #trustedFrom = 0;
  #restores = 0;
  #isClosed = false;

  constructor(options: SharedOptions, onError: (error: unknown) => void) {
    const { burstMs, hourMs, prefix, redis } = options;
    this.#options = options;
    this.#onError = onError;
    this.#keys = quotaKeys(prefix);
    this.#holdMs = Math.min(20_000, Math.max(2000, 4 * burstMs));
    const hourHoldMs = Math.max(2 * this.#holdMs, Math.min(60_000, hourMs / 10));
    this.lasts = { hour: hourMs + hourHoldMs, burst: burstMs + this.#holdMs };
    const given = redis.options as RedisOptions & { replyMapping?: "legacy" };
    this.#redis = new WorkRedis({ ...given, maxRetriesPerRequest: null, lazyConnect: false });
    this.#redis.on("error", onError);
    this.#read = redisScript(this.#redis, SNAPSHOT);
    this.#take = redisScript(this.#redis, new URL("./lua/take.lua", import.meta.url));
    // Another Redis may answer after a reconnection, or the same one with an older state.
    this.#redis.on("close", () => (this.#trustedFrom = Number.POSITIVE_INFINITY));
    this.#redis.on("ready", () => {
      if (this.#trustedFrom > 0) void this.#join(false);
    });
    this.#checkMs = Math.max(CHECK_LEAST_MS, burstMs / 2);
    this.#checking = setInterval(() => void this.#check().catch(onError), this.#checkMs).unref();
    this.ready = this.#join(true);
    // A command that needs no permit never awaits this promise. Code that awaits it still gets the error.
    this.ready.catch(() => {});
  }

  /** For how long no permit may be given, because Redis may have forgotten slots, ms. */
  untrustedMs(): number {
    return this.#trustedFrom - performance.now();
  }

  /** Reads what is shared, and whether Redis still has this log. */
  async snapshot(): Promise<QuotaSnapshot> {
    const snapshot = snapshotOf(await this.#read(...snapshotCall(this.#options)), this.#options);
    this.#compare(snapshot.epoch);
    return snapshot;
  }

  /**
   * Takes slots and writes the pacing, if nothing has changed since the snapshot.
   * @returns null when done, else how long to wait before the next try, ms
   */
  async commit(slots: readonly Slots[], { version }: QuotaSnapshot, state: PaceState) {
    const waitMs = await this.#run(slots, version, JSON.stringify(state));
    if (waitMs === null) for (const slot of slots) this.#remember(slot);
    return waitMs;
  }

  /** Whether a permit requested then is still so young that its slots last until its request arrives. */
  isFresh(requestedAt: number): boolean {
    return performance.now() - requestedAt < FRESH_PART * this.#holdMs;
  }

  /** Says anew when the slots of a permit end. */
  async end(slots: Slots): Promise<void> {
    this.underWay.delete(slots[0]);
    await this.#put([slots]);
  }

  async #put(slots: readonly Slots[]): Promise<void> {
    for (const slot of slots) this.#remember(slot);
    await this.#run(slots);
  }

  /** How long slots last from a reply on. @param tripMs how long the request took */
  afterReply(tripMs: number): { readonly hour: number; readonly burst: number } {
    const lasts = (windowMs: number) =>
      Math.ceil(windowMs * (1 + MARGIN) + Math.min(tripMs, MARGIN_MOST * windowMs)) + 1;
    return { hour: lasts(this.#options.hourMs), burst: lasts(this.#options.burstMs) };
  }

  /** Ends at once; spent slots stay in Redis until their windows have passed. */
  disconnect(): void {
    this.#isClosed = true;
    clearInterval(this.#checking);
    this.#redis.disconnect();
  }

  #run(slots: readonly Slots[], ...versionAndPacing: string[]): Promise<number | null> {
    const { log, hour, burst } = this.#keys;
    return this.#take([log, hour, burst], [JSON.stringify(slots), ...versionAndPacing]);
  }

  #remember([id, hour, burst]: Slots): void {
    const now = performance.now();
    const known = this.#own.get(id) ?? { hour: 0, burst: 0 };
    const at = (ms: number, before: number) => (ms === STAYS ? before : now + ms);
    this.#own.set(id, { hour: at(hour, known.hour), burst: at(burst, known.burst) });
  }

  /** Puts off the ends of slots in use, forgets those that have ended, and asks whether Redis still has the others. */
  async #check(): Promise<void> {
    const now = performance.now();
    for (const [id, { hour, burst }] of this.#own) {
      if (hour <= now && burst <= now) this.#own.delete(id);
    }
    if (this.#own.size === 0 || this.#redis.status !== "ready") return;
    const { hour, burst } = this.lasts;
    const kept = [...this.underWay].map((id): Slots => [id, hour, burst]);
    if (kept.length > 0) await this.#put(kept);
    this.#compare(await this.#redis.hget(this.#keys.log, "epoch"));
  }

  /** Another name: somebody has emptied Redis, as with FLUSHALL, which closes no connection. */
  #compare(epoch: string | null): void {
    if (this.#epoch === "" || epoch === this.#epoch || this.untrustedMs() > 0) return;
    this.#trustedFrom = Number.POSITIVE_INFINITY;
    void this.#join(false);
  }

  /**
   * Takes part in the log, or begins it: at the start, and when Redis may have forgotten slots. Then each process
   * writes its own again, and waits until the others have done so. Meanwhile the requests of a process that has
   * died leave the burst's window.
   * @throws what Redis says when a command starts while it rejects writes; a daemon tries again
   */
  async #join(isStart: boolean): Promise<void> {
    const join = (this.#restores += 1);
    const { perHour, burst, setsLimits } = this.#options;
    const isLatest = () => isStart || join === this.#restores;
    while (!this.#isClosed && isLatest()) {
      try {
        const now = performance.now();
        const left = (end: number) => (end > now ? Math.ceil(end - now) : STAYS);
        await this.#run([...this.#own].map(([id, own]) => [id, left(own.hour), left(own.burst)]));
        const set = isStart && setsLimits ? "HSET" : "HSETNX";
        const { log } = this.#keys;
        const replies = await redisWrites(this.#redis)([
          [set, log, "hour", perHour],
          [set, log, "burst", burst],
          ["HSETNX", log, "epoch", randomUUID()],
          ["HGET", log, "epoch"],
        ]);
        this.#epoch = String(replies.at(-1));
        const waitMs = Math.max(this.afterReply(0).burst, 2 * this.#checkMs);
        if (!isStart && join === this.#restores) this.#trustedFrom = performance.now() + waitMs;
        return;
      } catch (error) {
        if (isStart && (!setsLimits || this.#isClosed)) throw error;
        if (!this.#isClosed) this.#onError(error);
        await sleep(AGAIN_MS, undefined, { ref: false });
      }
    }
  }
}
