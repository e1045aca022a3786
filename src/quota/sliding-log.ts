/**
 * The exact count of requests, shared by all processes: a sliding log per window in Redis. A permit
 * holds a slot in both from the moment it is given until its reply has come and the window has passed,
 * so the slots are exactly the requests that the service may still count. The slot of a process that
 * died ends by itself, a little after its window.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis, RedisOptions } from "ioredis";
import { redisScript, redisWrites, WorkRedis, type RedisScript } from "../ops/redis-script.ts";

/** Every Redis key of the quota. All are under `<prefix>:quota:` and share the prefix's hash tag. */
export function quotaKeys(prefix: string) {
  const root = `${prefix}:quota`;
  return {
    /** Hash of the sliding log: `epoch` (its name), `taken` (slots so far), `hour` and `burst` (limits). */
    log: `${root}:log`,
    /** Sorted set permit id → when its slot of the hour ends by itself, ms. */
    hour: `${root}:log:hour`,
    /** The same for the burst. */
    burst: `${root}:log:burst`,
    /** JSON of PaceState (pace-state.ts). */
    pacing: `${root}:pacing`,
    /** The live line, as src/state/keys.ts names it: sorted set crmCode → rank, or when it is due. */
    liveLine: `${prefix}:line:live`,
    /** Name of a slice without its number, likewise: counter of live changes. */
    flow: `${root}:flow`,
  } as const;
}

export type QuotaKeys = ReturnType<typeof quotaKeys>;

export interface SlidingLogOptions {
  /** Only its options are used. */
  readonly redis: Redis;
  readonly keys: QuotaKeys;
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
  /** False: limits that are in Redis stay. */
  readonly setsLimits: boolean;
  readonly onError: (error: unknown) => void;
}

/** What became of a call for a slot of both windows. */
export type Taking =
  | { readonly kind: "taken"; readonly requestedAt: number }
  /** Another process has changed the pacing, or Redis has forgotten slots: ask again. */
  | { readonly kind: "again" }
  | { readonly kind: "full"; readonly ms: number };

/** When a slot ends: ms from now, 0 at once; absent: as it is. */
export interface SlotEnds {
  readonly hour?: number;
  readonly burst?: number;
}

/** Part of its hold at which a permit is too old to be spent; the rest is for the way to the service. */
const FRESH_PART = 0.4;

/** While its request has no reply, the end of a slot is put off this many times in each hold. */
const PUT_OFF_PARTS = 4;

/**
 * A slot outlives its window by this part of it and a round trip to the service, at most by the larger
 * part: the service counts by another clock, which may be slower.
 */
const MARGIN = 0.001;
const MARGIN_MOST = 0.05;

/** The shortest of this many round trips counts: one late reply does not make a slow service. */
const ROUND_TRIPS = 5;

/** How often a process asks, at least, whether Redis still has its slots: twice in a burst's window, ms. */
const CHECK_LEAST_MS = 250;

/** Pause after a failed try to write to Redis, ms. */
const AGAIN_MS = 500;

/** Slots in one script call. */
const BATCH = 1000;

const STAYS = -1;

export class SlidingLog {
  readonly redis: WorkRedis;
  /** Resolves when Redis knows the limits. */
  readonly ready: Promise<void>;
  readonly #options: SlidingLogOptions;
  readonly #holds: { readonly hour: number; readonly burst: number };
  readonly #take: RedisScript<["taken" | "changed" | "forgotten"] | ["full", number]>;
  readonly #endSlots: RedisScript<number>;
  readonly #occupy: RedisScript<number>;
  readonly #write: ReturnType<typeof redisWrites>;
  readonly #checkMs: number;
  readonly #checking: NodeJS.Timeout;
  /** The slots of this process, for a Redis that has forgotten them: when they end, by performance.now(). */
  readonly #own = new Map<string, { hour: number; burst: number }>();
  #epoch = "";
  /** From when on the burst's slots cannot lack one that still counts, by performance.now(). */
  #trustedFrom = 0;
  #restores = 0;
  #tripsMs: readonly number[] = [];
  #isClosed = false;

  constructor(options: SlidingLogOptions) {
    this.#options = options;
    const { burstHoldMs, hourHoldMs } = holdsOf(options);
    this.#holds = { hour: hourHoldMs, burst: burstHoldMs };
    const given = options.redis.options as RedisOptions & { replyMapping?: "legacy" };
    this.redis = new WorkRedis({ ...given, maxRetriesPerRequest: null, lazyConnect: false });
    this.redis.on("error", options.onError);
    this.#take = redisScript(this.redis, new URL("./lua/take.lua", import.meta.url));
    this.#endSlots = redisScript(this.redis, new URL("./lua/end-slots.lua", import.meta.url));
    this.#occupy = redisScript(this.redis, new URL("./lua/occupy.lua", import.meta.url));
    this.#write = redisWrites(this.redis);
    // Another Redis may answer after a reconnection, or the same one with an older state.
    this.redis.on("close", () => (this.#trustedFrom = Number.POSITIVE_INFINITY));
    this.redis.on("ready", () => {
      if (this.#trustedFrom > 0) void this.#restore();
    });
    this.#checkMs = Math.max(CHECK_LEAST_MS, options.burstMs / 2);
    this.#checking = setInterval(() => void this.#check(), this.#checkMs).unref();
    this.ready = this.#open();
    // A command that needs no permit never awaits this promise. Code that awaits it still gets the error.
    this.ready.catch(() => {});
  }

  /** For how long no permit may be given, because Redis may have forgotten slots, ms. */
  untrustedMs(): number {
    return this.#trustedFrom - performance.now();
  }

  /** Takes a slot of both windows, if the pacing is still as it was read. */
  async take(permitId: string, pacing: string, newPacing: string): Promise<Taking> {
    const { keys, hourMs, burstMs } = this.#options;
    const lasts = { hour: hourMs + this.#holds.hour, burst: burstMs + this.#holds.burst };
    const requestedAt = performance.now();
    const [kind, ms = 0] = await this.#take(
      [keys.log, keys.hour, keys.burst, keys.pacing],
      [permitId, this.#epoch, lasts.hour, lasts.burst, pacing, newPacing],
    );
    if (kind === "full") return { kind, ms };
    if (kind === "forgotten") this.#forgotten();
    if (kind !== "taken") return { kind: "again" };
    this.#remember(permitId, lasts);
    return { kind, requestedAt };
  }

  /** Changes the pacing if it is still as it was read. @returns whether it was. */
  async setPacing(pacing: string, newPacing: string): Promise<boolean> {
    const { keys } = this.#options;
    const [kind] = await this.#take(
      [keys.log, keys.hour, keys.burst, keys.pacing],
      ["", this.#epoch, 0, 0, pacing, newPacing],
    );
    return kind === "taken";
  }

  /** Whether a permit requested then is still so young that its slots last until its request arrives. */
  isFresh(requestedAt: number): boolean {
    return performance.now() - requestedAt < FRESH_PART * this.#holds.burst;
  }

  /** While the request is under way its slots last, however late the service counts it. @returns how to end this. */
  keep(permitId: string): () => void {
    const { hourMs, burstMs, onError } = this.#options;
    const ends = { hour: hourMs + this.#holds.hour, burst: burstMs + this.#holds.burst };
    const putOff = () => void this.end(permitId, ends).catch(onError);
    const keeping = setInterval(putOff, this.#holds.burst / PUT_OFF_PARTS).unref();
    return () => clearInterval(keeping);
  }

  /** Says anew when the slots of a permit end. */
  async end(permitId: string, ends: SlotEnds): Promise<void> {
    this.#remember(permitId, ends);
    await this.#writeEnds([[permitId, ends.hour ?? STAYS, ends.burst ?? STAYS]]);
  }

  /** How long slots last from a reply on. @param tripMs how long the request took; absent: no reply came */
  afterReply(tripMs: number | undefined): Required<SlotEnds> {
    if (tripMs !== undefined) this.#tripsMs = [...this.#tripsMs, tripMs].slice(-ROUND_TRIPS);
    const trip = this.#tripsMs.length === 0 ? 0 : Math.min(...this.#tripsMs);
    const lasts = (windowMs: number) =>
      Math.ceil(windowMs * (1 + MARGIN) + Math.min(trip, MARGIN_MOST * windowMs)) + 1;
    return { hour: lasts(this.#options.hourMs), burst: lasts(this.#options.burstMs) };
  }

  /**
   * Takes the slots of the hour that another program has spent.
   * @param granted what was known when the permit was given.
   * @returns how many.
   */
  async occupy(
    granted: { readonly epoch: string; readonly taken: number; readonly running: number },
    remaining: number,
    forMs: number,
  ): Promise<number> {
    const { keys } = this.#options;
    const name = randomUUID();
    const count = await this.#occupy(
      [keys.log, keys.hour],
      [name, granted.epoch, granted.taken, granted.running, remaining, forMs],
    );
    for (let n = 1; n <= count; n += 1) this.#remember(`${name}:${n}`, { hour: forMs });
    return count;
  }

  /** Ends at once; spent slots stay in Redis until their windows have passed. */
  disconnect(): void {
    this.#isClosed = true;
    clearInterval(this.#checking);
    this.redis.disconnect();
  }

  #remember(id: string, { hour, burst }: SlotEnds): void {
    const now = performance.now();
    const known = this.#own.get(id) ?? { hour: 0, burst: 0 };
    const at = (ms: number | undefined, before: number) => (ms === undefined ? before : now + ms);
    this.#own.set(id, { hour: at(hour, known.hour), burst: at(burst, known.burst) });
  }

  async #writeEnds(slots: readonly (readonly [string, number, number])[]): Promise<void> {
    const { keys } = this.#options;
    await this.#endSlots([keys.hour, keys.burst], [JSON.stringify(slots)]);
  }

  async #open(): Promise<void> {
    const { setsLimits, onError } = this.#options;
    for (;;) {
      try {
        return await this.#join(setsLimits);
      } catch (error) {
        // A daemon may start while Redis rejects writes; a command fails then.
        if (!setsLimits || this.#isClosed) throw error;
        onError(error);
        await sleep(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /** Forgets the slots that have ended, and asks whether Redis still has the others. */
  async #check(): Promise<void> {
    const now = performance.now();
    for (const [id, { hour, burst }] of this.#own) {
      if (hour <= now && burst <= now) this.#own.delete(id);
    }
    if (this.#own.size === 0 || this.untrustedMs() > 0 || this.redis.status !== "ready") return;
    const epoch = await this.redis.hget(this.#options.keys.log, "epoch").catch(() => this.#epoch);
    if (epoch !== this.#epoch) this.#forgotten();
  }

  /** Somebody has emptied Redis, as with FLUSHALL, which closes no connection. */
  #forgotten(): void {
    if (this.#trustedFrom === Number.POSITIVE_INFINITY) return;
    this.#trustedFrom = Number.POSITIVE_INFINITY;
    void this.#restore();
  }

  /**
   * Redis may have forgotten slots. Each process writes its own again, and waits until the others have
   * done so. Meanwhile the requests of a process that has died leave the burst's window.
   */
  async #restore(): Promise<void> {
    const restore = (this.#restores += 1);
    while (restore === this.#restores && !this.#isClosed) {
      try {
        await this.#join(false);
        const waitMs = Math.max(this.afterReply(undefined).burst, 2 * this.#checkMs);
        if (restore === this.#restores) this.#trustedFrom = performance.now() + waitMs;
        return;
      } catch (error) {
        // As after a failover, while Redis still rejects writes.
        if (!this.#isClosed) this.#options.onError(error);
        await sleep(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /** Writes the slots of this process, then takes part in the log, or begins it. */
  async #join(setsLimits: boolean): Promise<void> {
    const { keys, perHour, burst } = this.#options;
    const now = performance.now();
    const left = (end: number) => (end > now ? Math.ceil(end - now) : STAYS);
    const slots = [...this.#own].map(
      ([id, ends]) => [id, left(ends.hour), left(ends.burst)] as const,
    );
    for (let from = 0; from < slots.length; from += BATCH) {
      await this.#writeEnds(slots.slice(from, from + BATCH));
    }
    const set = setsLimits ? "HSET" : "HSETNX";
    const replies = await this.#write([
      [set, keys.log, "hour", perHour],
      [set, keys.log, "burst", burst],
      ["HSETNX", keys.log, "epoch", randomUUID()],
      ["HGET", keys.log, "epoch"],
    ]);
    this.#epoch = String(replies.at(-1));
  }
}

/** How much longer than its window a slot lasts when its process dies, ms: see docs/quota.md. */
function holdsOf({ hourMs, burstMs }: Pick<SlidingLogOptions, "hourMs" | "burstMs">) {
  const burstHoldMs = Math.min(20_000, Math.max(2000, 4 * burstMs));
  return { burstHoldMs, hourHoldMs: Math.max(2 * burstHoldMs, Math.min(60_000, hourMs / 10)) };
}
