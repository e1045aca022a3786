/** Issues permits to the waiters of this process, one at a time: a turn, both slots, the permit. */
import { randomUUID } from "node:crypto";
import type { Lane } from "../sync/lane.ts";
import type { Feedback } from "./feedback.ts";
import { areFresh, type LeasePair, type Slots } from "./lease-pair.ts";
import type { Pacer, TakenTurn } from "./pacer.ts";
import { Permit } from "./permit.ts";
import { isStopped } from "./quota-state.ts";
import { passedOr, type Waiters } from "./waiters.ts";

/** Longest wait before asking for a turn again: other processes may change when it comes. */
const ASK_AGAIN_MS = 1000;

/** After a wait for slots longer than this, check again that nothing has stopped all sending. */
const LONG_WAIT_MS = 50;

export interface PermitIssuerOptions {
  readonly waiters: Waiters;
  readonly pacer: Pacer;
  readonly leases: LeasePair;
  readonly feedback: Feedback;
  readonly hourMs: number;
  readonly burstMs: number;
  /** Gets errors that concern no waiter. */
  readonly onError: (error: unknown) => void;
}

/** What a permit is made of. */
interface Grant {
  readonly permitId: string;
  readonly turn: TakenTurn;
  readonly slots: Slots;
}

/** With more slots than this left in the hour, other processes cannot take all of them in a moment. */
const MANY = 100;

const hasMany = ({ snapshot }: TakenTurn): boolean => snapshot.remaining > MANY;

/** Gives the slots back as soon as they are there. */
async function releaseAll(taking: Promise<Slots> | undefined): Promise<void> {
  const slots = await taking?.catch(() => undefined);
  slots?.hour.release(0);
  slots?.burst.release(0);
}

export class PermitIssuer {
  readonly #options: PermitIssuerOptions;
  #running = false;
  /**
   * Whether the last permit was given at once and left many: so, probably, is the next one. Its turn and
   * both slots are then asked for together.
   */
  #isCalm = false;
  /** Whether the next permit has had to wait for its turn. */
  #hasWaited = false;

  constructor(options: PermitIssuerOptions) {
    this.#options = options;
  }

  /** Issues permits until no waiter is left; does nothing while an earlier call is still at it. */
  async run(): Promise<void> {
    const { waiters, leases } = this.#options;
    if (this.#running) return;
    this.#running = true;
    try {
      await leases.ready;
      while (waiters.next() !== undefined) await this.#issueNext();
    } catch (error) {
      waiters.rejectAll(error);
    } finally {
      this.#running = false;
    }
  }

  async #issueNext(): Promise<void> {
    const { leases, pacer, waiters } = this.#options;
    const change = waiters.change();
    const lane = waiters.next()?.lane ?? "bulk";
    const untrustedMs = leases.untrustedMs();
    if (untrustedMs > 0) return passedOr(change, Math.min(untrustedMs, ASK_AGAIN_MS));
    const permitId = randomUUID();
    const asking = pacer.takeTurn(lane, permitId);
    const early = this.#isCalm ? leases.takeBoth() : undefined;
    early?.catch(() => {}); // awaited below
    const turn = await asking.catch((error: unknown) => {
      void releaseAll(early);
      throw error;
    });
    if (turn.kind === "wait") {
      this.#isCalm = false;
      this.#hasWaited = true;
      void releaseAll(early);
      return passedOr(change, Math.min(turn.ms, ASK_AGAIN_MS));
    }

    const grant = await this.#takeSlots(permitId, turn, early);
    // The first waiter may be another by now, or none. A live turn may come from the reserve that
    // bulk work must leave alone.
    const waiter = waiters.next();
    const mayUse = waiter !== undefined && (waiter.lane === lane || waiter.lane === "live");
    if (grant.stopped || !mayUse || !areFresh(grant.slots)) return this.#cancel(grant);
    this.#isCalm = !this.#hasWaited && hasMany(turn);
    this.#hasWaited = false;
    return waiter.grant(this.#permitOf(waiter.lane, grant));
  }

  async #takeSlots(
    permitId: string,
    turn: TakenTurn,
    early: Promise<Slots> | undefined,
  ): Promise<Grant & { stopped: boolean }> {
    const { leases, pacer } = this.#options;
    const askedAt = performance.now();
    const slots = await (early ?? (hasMany(turn) ? leases.takeBoth() : leases.take()));
    const long = performance.now() - askedAt > LONG_WAIT_MS;
    const stopped = leases.untrustedMs() > 0 || (long && isStopped(await pacer.snapshot()));
    return { permitId, turn, slots, stopped };
  }

  #permitOf(lane: Lane, grant: Grant): Permit {
    const { feedback, pacer, hourMs, burstMs, onError } = this.#options;
    const { permitId, turn, slots } = grant;
    const grantedAt = performance.now();
    return new Permit(lane, {
      fresh: () => areFresh(slots),
      sending() {
        slots.hour.keep();
        slots.burst.keep();
      },
      cancelled: () => void this.#cancel(grant).catch(onError),
      unsent() {
        slots.hour.release(0);
        slots.burst.release(burstMs);
        pacer.returnTurn(permitId, turn).catch(onError);
      },
      async answered(result) {
        slots.hour.release(hourMs);
        slots.burst.release(burstMs);
        const tripMs = performance.now() - grantedAt;
        await feedback.learn(result, { permitId, turn, tripMs }).catch(onError);
      },
    });
  }

  /** Returns the turn and both slots at once. */
  #cancel({ permitId, turn, slots }: Grant): Promise<void> {
    slots.hour.release(0);
    slots.burst.release(0);
    return this.#options.pacer.returnTurn(permitId, turn);
  }
}
