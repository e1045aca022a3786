/** Issues permits to the calls of this process that wait: through its limiter, then from the pacer. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Bottleneck from "bottleneck";
import type { Lane } from "../event/lane.ts";
import type { Feedback } from "./feedback.ts";
import type { Pacer, TakenPermit } from "./pacer.ts";
import { Permit } from "./permit.ts";
import type { SlidingLog } from "./sliding-log.ts";

export interface GateOptions {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
}

/** Lower ones first. A bulk call that made way for a live one goes before the other bulk calls. */
export const PRIORITY = { live: 3, returned: 5, bulk: 7 } as const;

/** Bottleneck looks this often whether a window is over: at least so many times in each, ms. */
const HEARTBEAT_MS = 250;
const HEARTBEATS = 20;

export type Gate = ReturnType<typeof createGate>;

/**
 * The limiter of this process, which every request goes through: two chained Bottlenecks, of the burst
 * and of the hour, as the service's limits say. They serve live calls before bulk ones, one at a time.
 * Other processes and sliding windows are the sliding log's part: docs/adr/0002.
 */
export function createGate({ perHour, hourMs, burst, burstMs }: GateOptions) {
  const hour = new Bottleneck(reservoirOf(perHour, hourMs));
  const bursts = new Bottleneck({ ...reservoirOf(burst, burstMs), maxConcurrent: 1 });
  bursts.chain(hour);
  return {
    /** Runs the job when its turn has come. */
    pass: <T>(priority: number, job: () => Promise<T>): Promise<T> =>
      bursts.schedule({ priority }, job),

    /** A job sent nothing that counts in the hour, or in both windows. */
    async giveBack(windows: "both" | "hour"): Promise<void> {
      await hour.incrementReservoir(1);
      if (windows === "both") await bursts.incrementReservoir(1);
    },

    async close(): Promise<void> {
      await hour.disconnect(false);
      await bursts.disconnect(false);
    },
  };
}

const reservoirOf = (limit: number, windowMs: number) => ({
  reservoir: limit,
  reservoirRefreshAmount: limit,
  reservoirRefreshInterval: windowMs,
  heartbeatInterval: Math.min(HEARTBEAT_MS, windowMs / HEARTBEATS),
});

/** Longest wait before asking again: other processes may give slots back, ms. */
const ASK_AGAIN_MS = 1000;

export interface PermitIssuerOptions {
  readonly gate: Gate;
  readonly pacer: Pacer;
  readonly slots: SlidingLog;
  readonly feedback: Feedback;
  /** Gets errors that concern no waiter. */
  readonly onError: (error: unknown) => void;
}

export class PermitIssuer {
  readonly #options: PermitIssuerOptions;
  readonly #closing = new AbortController();
  /** Live calls that wait. */
  #live = 0;

  constructor(options: PermitIssuerOptions) {
    this.#options = options;
  }

  async acquire(lane: Lane, given: AbortSignal | undefined): Promise<Permit> {
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

  /** @param reason every call that waits gets it. */
  rejectAll(reason: unknown): void {
    this.#closing.abort(reason);
  }

  async #issue(lane: Lane, signal: AbortSignal): Promise<Permit> {
    const { gate, slots } = this.#options;
    await slots.ready;
    let priority: number = PRIORITY[lane];
    for (;;) {
      let taken: TakenPermit | undefined;
      try {
        taken = await gate.pass(priority, () => this.#take(lane, signal));
      } finally {
        if (taken === undefined) await gate.giveBack("both");
      }
      priority = Math.min(priority, PRIORITY.returned);
      const permit = taken && this.#permitOf(lane, taken);
      const isGood = taken && slots.isFresh(taken.requestedAt) && slots.untrustedMs() <= 0;
      if (permit !== undefined && isGood && !signal.aborted) return permit;
      permit?.cancel();
      signal.throwIfAborted();
    }
  }

  /** Asks until a permit is given; undefined when nobody waits for it any more, or a live call goes first. */
  async #take(lane: Lane, signal: AbortSignal): Promise<TakenPermit | undefined> {
    const { pacer, slots } = this.#options;
    const permitId = randomUUID();
    while (!signal.aborted) {
      if (lane === "bulk" && this.#live > 0) return undefined;
      const untrustedMs = slots.untrustedMs();
      const taking =
        untrustedMs > 0
          ? ({ kind: "wait", ms: untrustedMs } as const)
          : await pacer.take(lane, permitId);
      if (taking.kind === "taken") return taking;
      const ms = Math.min(taking.ms, ASK_AGAIN_MS);
      if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => {});
    }
    return undefined;
  }

  #permitOf(lane: Lane, taken: TakenPermit): Permit {
    const { feedback, gate, pacer, slots, onError } = this.#options;
    const { permitId, requestedAt } = taken;
    let sentAt = performance.now();
    let stopKeeping = () => {};
    const returned = (windows: "both" | "hour", burst: number) => {
      const returning = [
        slots.end(permitId, { hour: 0, burst }),
        pacer.returnTurn(taken),
        gate.giveBack(windows),
      ];
      void Promise.all(returning).catch(onError);
    };
    return new Permit(lane, {
      fresh: () => slots.isFresh(requestedAt),
      sending() {
        sentAt = performance.now();
        stopKeeping = slots.keep(permitId);
      },
      cancelled: () => returned("both", 0),
      unsent: () => returned("hour", slots.afterReply(undefined).burst),
      async answered(result) {
        stopKeeping();
        const tripMs = result.status === undefined ? undefined : performance.now() - sentAt;
        const learning = feedback.learn(result, taken);
        await Promise.all([slots.end(permitId, slots.afterReply(tripMs)), learning]).catch(onError);
      },
    });
  }
}
