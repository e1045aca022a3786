/** Issues permits to the calls of this process that wait: through the gate, then from the pacer. */
import { randomUUID } from "node:crypto";
import type { Lane } from "../event/lane.ts";
import type { Feedback } from "./feedback.ts";
import type { Pacer, TakenPermit } from "./pacer.ts";
import { Permit } from "./permit.ts";
import type { SlidingLog } from "./sliding-log.ts";
import Bottleneck from "bottleneck";

// The limiter of this process, which every request goes through: two chained Bottlenecks, of the burst
// and of the hour, as the service's limits say. They serve live calls before bulk ones, one at a time.
// Other processes and sliding windows are the sliding log's part: docs/adr/0002.

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

/** The windows of which a job gives its part back, since it sent nothing that counts in them. */
export type Windows = "both" | "hour";

export type Gate = ReturnType<typeof createGate>;

export function createGate({ perHour, hourMs, burst, burstMs }: GateOptions) {
  const openPair = (hourly: number, inBurst: number) => {
    const hour = new Bottleneck(reservoirOf(hourly, hourMs));
    const bursts = new Bottleneck({ ...reservoirOf(inBurst, burstMs), maxConcurrent: 1 });
    bursts.chain(hour);
    return { hour, bursts, limits: `${hourly} ${inBurst}` };
  };
  let pair = openPair(perHour, burst);
  const closePair = async ({ hour, bursts }: typeof pair) => {
    await hour.disconnect(false);
    await bursts.disconnect(false);
  };
  return {
    /** Runs the job when its turn has come. */
    pass: (priority: number, job: () => Promise<void>): Promise<void> =>
      pair.bursts.schedule({ priority }, job),

    async giveBack(windows: Windows): Promise<void> {
      await pair.hour.incrementReservoir(1);
      if (windows === "both") await pair.bursts.incrementReservoir(1);
    },

    /**
     * Takes other limits: those of a daemon hold for all processes. In a new pair, because
     * `updateSettings` ends the refreshing of a local reservoir (Bottleneck 2.19.5). The calls that wait
     * in the former pair pass at once: the sliding log is exact.
     */
    async follow(hourly: number, inBurst: number): Promise<void> {
      if (pair.limits === `${hourly} ${inBurst}`) return;
      const former = pair;
      pair = openPair(hourly, inBurst);
      await closePair(former);
      await former.hour.incrementReservoir(Number.MAX_SAFE_INTEGER);
      await former.bursts.incrementReservoir(Number.MAX_SAFE_INTEGER);
    },

    close: (): Promise<void> => closePair(pair),
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

interface Waiter {
  readonly lane: Lane;
  grant(permit: Permit): void;
  reject(reason: unknown): void;
}

export class PermitIssuer {
  readonly #options: PermitIssuerOptions;
  readonly #waiting = new Set<Waiter>();
  /** Resolves when the next waiter comes or goes. */
  #changed = Promise.withResolvers<void>();

  constructor(options: PermitIssuerOptions) {
    this.#options = options;
  }

  acquire(lane: Lane, signal: AbortSignal | undefined): Promise<Permit> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const end = () => {
        signal?.removeEventListener("abort", giveUp);
        this.#waiting.delete(waiter);
        this.#notify();
      };
      const waiter: Waiter = {
        lane,
        grant: (permit) => (end(), resolve(permit)),
        reject: (reason) => (end(), reject(reason)),
      };
      const giveUp = () => waiter.reject(signal?.reason);
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(waiter);
      this.#notify();
      void this.#enter(waiter, PRIORITY[lane]);
    });
  }

  rejectAll(reason: unknown): void {
    for (const waiter of this.#waiting) waiter.reject(reason);
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async #enter(waiter: Waiter, priority: number): Promise<void> {
    const { gate, slots } = this.#options;
    try {
      await slots.ready;
      let taken: TakenPermit | undefined;
      await gate.pass(priority, async () => {
        taken = await this.#take(waiter);
      });
      if (taken !== undefined) return this.#grant(waiter, taken);
      await gate.giveBack("both");
    } catch (error) {
      await gate.giveBack("both");
      waiter.reject(error);
    }
    if (this.#waiting.has(waiter)) return this.#enter(waiter, PRIORITY.returned);
  }

  /** Asks until a permit is given; undefined when nobody waits for it any more, or a live call goes first. */
  async #take(waiter: Waiter): Promise<TakenPermit | undefined> {
    const { pacer, slots } = this.#options;
    const permitId = randomUUID();
    while (this.#waiting.has(waiter) && !this.#makesWay(waiter)) {
      const change = this.#changed.promise;
      const untrustedMs = slots.untrustedMs();
      const taking =
        untrustedMs > 0
          ? ({ kind: "wait", ms: untrustedMs } as const)
          : await pacer.take(waiter.lane, permitId);
      if (taking.kind === "taken") return taking;
      if (taking.ms > 0) await passedOr(change, Math.min(taking.ms, ASK_AGAIN_MS));
    }
    return undefined;
  }

  #makesWay({ lane }: Waiter): boolean {
    return lane === "bulk" && [...this.#waiting].some((other) => other.lane === "live");
  }

  #grant(waiter: Waiter, taken: TakenPermit): void {
    const { gate, slots, onError } = this.#options;
    const { limit, burst } = taken.snapshot;
    gate.follow(limit, burst).catch(onError);
    const permit = this.#permitOf(waiter.lane, taken);
    const isGood = slots.isFresh(taken.requestedAt) && slots.untrustedMs() <= 0;
    if (isGood && this.#waiting.has(waiter)) return waiter.grant(permit);
    permit.cancel();
    if (this.#waiting.has(waiter)) void this.#enter(waiter, PRIORITY[waiter.lane]);
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
        const now = performance.now();
        const tripMs = result.status === undefined ? undefined : now - sentAt;
        const learning = feedback.learn(result, taken);
        await Promise.all([slots.end(permitId, slots.afterReply(tripMs)), learning]).catch(onError);
      },
    });
  }
}

/** Resolves after `ms`, or earlier when `event` resolves. */
async function passedOr(event: Promise<void>, ms: number): Promise<void> {
  const passed = Promise.withResolvers<void>();
  const timer = setTimeout(passed.resolve, ms);
  await Promise.race([passed.promise, event]);
  clearTimeout(timer);
}
