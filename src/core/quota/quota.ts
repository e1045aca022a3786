/**
 * The quota: the one place that gives permits. Each call passes the limiter of this process; then pacing decides when
 * the next request may start (pacing.ts), and the sliding log keeps both windows exact over all processes
 * (sliding-log.ts). docs/adr/0002 explains why it is built this way.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Bottleneck from "bottleneck";
import type { Reading } from "../../base/redis-reading.ts";
import { isForeign, remainingOf, resetInMs, waitAskedMs } from "../../base/retry-after.ts";
import type { ReplyHeaders } from "../../base/retry-after.ts";
import type { Lane } from "../event/lane.ts";
import { drainsInMs, learn, paceOf, returnTurn, takeTurn } from "./pacing.ts";
import type { PaceState, Reply, Waiting } from "./pacing.ts";
import { Permit, type ExchangeResult } from "./permit.ts";
import { SlidingLog, snapshotReading, STAYS } from "./sliding-log.ts";
import type { QuotaLimits, QuotaSnapshot, SharedOptions, Slots } from "./sliding-log.ts";

export type { QuotaLimits } from "./sliding-log.ts";

export type QuotaState = Readonly<ReturnType<typeof stateOf>>;

/** What people see: the same in every process. Times in ms since the epoch. */
export function stateOf(snapshot: QuotaSnapshot, limits: Pick<QuotaLimits, "burst" | "burstMs">) {
  const { now, foreign, limit, remaining, pacing, taken, returns } = snapshot;
  const { stop } = snapshot.state;
  const stopped = stop > now;
  return {
    limit,
    remaining,
    /** Requests that only the service has counted: another program has sent them, or its count is wrong. */
    foreign,
    /** When the next spent request of the hour returns, and when all have returned; now when none is spent. */
    resetAt: snapshot.nextReturnAt,
    allReturnedAt: snapshot.allReturnedAt,
    /** Requests of the hour that return in each part of the next one: so many were spent in that part of the last one. */
    returns,
    stopped: stopped ? ("throttled" as const) : undefined,
    /** Until when no process sends; undefined when not stopped. */
    until: stopped ? stop : undefined,
    pacing,
    /** Whether a request was ever sent: before that, what the service has counted is not known. */
    hasSent: taken > 0,
    /** When `waiting` requests will have been sent, if no more come. */
    drainedAt: (waiting: Waiting): number =>
      Math.max(now, stop) + drainsInMs(waiting, snapshot, limits, pacing === "steady"),
  };
}

/** Reads the state of the quota, for processes that send nothing. */
export function quotaReading(limits: QuotaLimits): Reading<QuotaState> {
  const { command, meaning } = snapshotReading(limits);
  return { command, meaning: (reply) => stateOf(meaning(reply), limits) };
}

export type QuotaEvent =
  `quota.${"throttled" | "pacing_changed" | "spent_elsewhere" | "redis_error"}`;

export interface QuotaOptions extends SharedOptions {
  readonly log?: Readonly<Record<"info" | "warn", (fields: object, event: QuotaEvent) => void>>;
  /** Called when a 429 to this process stops all processes. */
  readonly onThrottled?: () => void;
}

export type Quota = Pick<PermitIssuer, "ready" | "acquire" | "state" | "disconnect">;

export const createQuota = (options: QuotaOptions): Quota => new PermitIssuer(options);

/** Lower ones first. */
const PRIORITY = { live: 3, bulk: 7 } as const;

/** Bottleneck looks this often whether a window is over: at least so many times in each, ms. */
const HEARTBEAT_MS = 250;
const HEARTBEATS = 20;

/** A limiter of this process, tuned as the service's limits say. */
export const limiterOf = (limit: number, windowMs: number) =>
  new Bottleneck({
    reservoir: limit,
    reservoirRefreshAmount: limit,
    reservoirRefreshInterval: windowMs,
    heartbeatInterval: Math.min(HEARTBEAT_MS, windowMs / HEARTBEATS),
  });

/** Longest wait before asking again: other processes may give slots back, ms. */
const ASK_AGAIN_MS = 1000;

/** How often a waiter looks whether a change has come that may take its turn early, or whether no live call waits, ms. */
const LOOKS_PER_HOUR = 7200;
const LOOK_LEAST_MS = 20;

class PermitIssuer {
  /** Resolves when Redis knows the limits. */
  readonly ready: Promise<void>;
  readonly #options: QuotaOptions;
  readonly #log: SlidingLog;
  readonly #hour: Bottleneck;
  readonly #bursts: Bottleneck;
  readonly #closing = new AbortController();
  readonly #lookMs: number;
  /** Live calls that wait. */
  #live = 0;
  /** Permits that passed the limiter and were not spent: the next ones pass in their place. */
  #spare = 0;

  constructor(options: QuotaOptions) {
    const { perHour, hourMs, burst, burstMs } = options;
    this.#options = options;
    this.#log = new SlidingLog(options, this.#onError);
    this.ready = this.#log.ready;
    this.#hour = limiterOf(perHour, hourMs);
    this.#bursts = limiterOf(burst, burstMs).chain(this.#hour);
    this.#lookMs = Math.max(LOOK_LEAST_MS, hourMs / LOOKS_PER_HOUR);
  }

  /** Waits for the right to one request. @throws the signal's reason when it is aborted first: this loses no slot */
  async acquire(lane: Lane, given?: AbortSignal): Promise<Permit> {
    const closing = this.#closing.signal;
    const signal = given === undefined ? closing : AbortSignal.any([given, closing]);
    signal.throwIfAborted();
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", onAbort);
    const count = lane === "live" ? 1 : 0;
    this.#live += count;
    const issued = this.#issue(lane, signal);
    try {
      return await Promise.race([issued, aborted.promise]);
    } catch (error) {
      // What comes too late goes back.
      issued.then(
        (permit) => permit.cancel(),
        () => {},
      );
      throw error;
    } finally {
      this.#live -= count;
      signal.removeEventListener("abort", onAbort);
    }
  }

  async state(): Promise<QuotaState> {
    return stateOf(await this.#log.snapshot(), this.#options);
  }

  /** Ends at once and rejects all waiters. Spent requests stay counted in Redis. */
  async disconnect(): Promise<void> {
    this.#closing.abort(new Error("the quota is closed"));
    this.#log.disconnect();
    await Promise.all([this.#hour.disconnect(false), this.#bursts.disconnect(false)]);
  }

  async #issue(lane: Lane, signal: AbortSignal): Promise<Permit> {
    await this.ready;
    for (;;) {
      signal.throwIfAborted();
      const taken = await this.#take(lane);
      if (typeof taken === "number") {
        await sleep(taken, undefined, { signal });
        continue;
      }
      if (this.#spare > 0) this.#spare -= 1;
      else await this.#bursts.schedule({ priority: PRIORITY[lane] }, async () => {});
      if (taken.isFresh && this.#log.untrustedMs() <= 0) return taken;
      taken.cancel();
    }
  }

  /** Takes a permit, or returns how long to wait before the next try, ms. */
  async #take(lane: Lane): Promise<Permit | number> {
    if (lane === "bulk" && this.#live > 0) return this.#lookMs;
    const requestedAt = performance.now();
    const seen = await this.#log.snapshot();
    const untrustedMs = this.#log.untrustedMs();
    if (untrustedMs > 0) return Math.min(untrustedMs, ASK_AGAIN_MS);
    const pace = paceOf(seen, lane);
    if (pace === undefined) return ASK_AGAIN_MS;
    const state = takeTurn(seen, pace, this.#options);
    const mostMs = pace.early > 0 ? this.#lookMs : ASK_AGAIN_MS;
    if (typeof state === "number") return Math.min(state, mostMs);
    const log = this.#log;
    const id = randomUUID();
    const waitMs = await log.commit([[id, log.lasts.hour, log.lasts.burst]], seen, state);
    if (waitMs !== null) return Math.min(waitMs, ASK_AGAIN_MS);
    const turn = { turnMs: pace.intervalMs, pacing: seen.pacing };
    const hasTurn = turn.turnMs > 0 || turn.pacing === "steady" || seen.state.failures > 0;
    const back = (now: QuotaSnapshot) => ({ state: returnTurn(now.state, turn, this.#options) });
    const giveBack = (burst: number) => {
      this.#spare += 1;
      void log.end([id, 0, burst]).catch(this.#onError);
      if (hasTurn) void this.#change(back).catch(this.#onError);
    };
    let sentAt = 0;
    return new Permit(lane, {
      fresh: () => log.isFresh(requestedAt),
      sending() {
        sentAt = performance.now();
        log.underWay.add(id);
      },
      cancelled: () => giveBack(0),
      unsent: () => giveBack(log.afterReply(0).burst),
      answered: async (result) => {
        const ends = log.afterReply(result.status === undefined ? 0 : performance.now() - sentAt);
        const ending = [log.end([id, ends.hour, ends.burst]), this.#learn(result, seen)];
        await Promise.all(ending).catch(this.#onError);
      },
    });
  }

  /** @param granted what was known when the permit was given */
  async #learn({ status, headers = {} }: ExchangeResult, granted: QuotaSnapshot): Promise<void> {
    if (status === 429) return this.#throttled(headers, granted);
    const reply = status === undefined ? "none" : "answered";
    if (reply === "none" || granted.state.failures > 0) await this.#change(this.#learning(reply));
    await this.#compareCounts(headers, granted);
  }

  #learning = (reply: Reply) => (seen: QuotaSnapshot) => ({
    state: learn(seen.state, seen.now, reply, this.#options),
  });

  async #throttled(headers: ReplyHeaders, { remaining }: QuotaSnapshot): Promise<void> {
    const { burst, hourMs, log, onThrottled, perHour } = this.#options;
    const askedMs = waitAskedMs(headers, Date.now());
    // A 429 because other programs have spent the hour does not mean that bursts are forbidden.
    const refillMs = (burst * hourMs) / perHour;
    const spentElsewhere = remainingOf(headers) === 0 && (askedMs ?? 0) > refillMs;
    const unexplained = !spentElsewhere && remaining > 0;
    const reply = { askedMs, unexplained, random: Math.random() };
    const { seen, state } = await this.#change(this.#learning(reply));
    // Otherwise it came during a stop.
    if (seen.state.stop <= seen.now) onThrottled?.();
    const wait = { until: new Date(state.stop).toISOString(), wait_asked_ms: askedMs };
    log?.warn({ ...wait, unexplained }, "quota.throttled");
    const switched = seen.state.steady <= seen.now && state.steady > seen.now;
    if (switched) log?.warn({ pacing: "steady", for_hours: 24 }, "quota.pacing_changed");
  }

  /** When the service counts more requests than we do, another program spends the same quota: its slots are taken. */
  async #compareCounts(headers: ReplyHeaders, granted: QuotaSnapshot): Promise<void> {
    const remaining = isForeign(headers) ? undefined : remainingOf(headers);
    const resetMs = resetInMs(headers, Date.now());
    if (remaining === undefined || resetMs === undefined) return;
    if (remaining >= granted.remaining - 1) return;
    const forMs = Math.min(resetMs, this.#options.hourMs);
    const name = randomUUID();
    const { slots } = await this.#change(({ epoch, limit, remaining: free, state, taken }) => {
      // Redis forgot requests, and not all processes have written theirs again: our count is too low.
      const isTold = epoch === granted.epoch && taken >= granted.taken;
      // Every request of ours that the service may have counted is in this number.
      const ours = granted.running + taken - granted.taken;
      const length = isTold ? Math.max(0, Math.min(limit - ours - remaining, free)) : 0;
      const slot = (_: unknown, n: number): Slots => [`${name}:${n}`, forMs, STAYS];
      return { state, slots: Array.from({ length }, slot) };
    });
    const requests = slots.length;
    if (requests > 0) this.#options.log?.info({ requests, for_ms: forMs }, "quota.spent_elsewhere");
  }

  /** Changes what is shared, beginning again while other processes change it meanwhile. */
  async #change(change: (seen: QuotaSnapshot) => { state: PaceState; slots?: readonly Slots[] }) {
    for (;;) {
      const seen = await this.#log.snapshot();
      const { state, slots = [] } = change(seen);
      if ((await this.#log.commit(slots, seen, state)) === null) return { seen, state, slots };
    }
  }

  /** Commands that fail because the connection was closed are expected. */
  #onError = (err: unknown): void => {
    if (!this.#closing.signal.aborted) this.#options.log?.warn({ err }, "quota.redis_error");
  };
}
