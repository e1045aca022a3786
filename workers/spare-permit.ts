/**
 * A permit that is requested when an event arrives, while the event is still on its way through intake:
 * the change need not wait for it afterwards. Only while the loop has nothing to do, and permits are
 * given at once. If no change follows, the permit is given back, and the next one is not requested early.
 */
import type { Permit } from "../src/quota/permit.ts";

/** How long an event may need to become a change, ms. */
const KEPT_MS = 300;

/** A permit that took longer was waited for: then none is requested early, ms. */
const AT_ONCE_MS = 50;

/** A permit, when it was requested and when it was granted, ms since the epoch. */
export interface GrantedPermit {
  readonly permit: Permit;
  readonly requestedAt: number;
  readonly grantedAt: number;
}

interface Spare {
  readonly granted: Promise<GrantedPermit | undefined>;
  readonly timer: NodeJS.Timeout;
  drop(): void;
}

type Acquire = (signal: AbortSignal) => Promise<GrantedPermit | undefined>;

export class SparePermit {
  readonly #acquire: Acquire;
  #isUseful = false;
  #spare: Spare | undefined;

  /** @param acquire a live permit; it resolves with undefined when the signal is aborted first. */
  constructor(acquire: Acquire) {
    this.#acquire = acquire;
  }

  /** Notes how long it took until a permit was given that a change needed. */
  used(tookMs: number): void {
    this.#isUseful = tookMs < AT_ONCE_MS;
  }

  /** A change is on its way. */
  expect(): void {
    if (!this.#isUseful || this.#spare !== undefined) return;
    this.#isUseful = false;
    const unneeded = new AbortController();
    // Without it, a permit is requested when the change is there, and reports the error.
    const granted = this.#acquire(unneeded.signal).catch(() => undefined);
    const drop = () => {
      this.#spare = undefined;
      clearTimeout(timer);
      unneeded.abort();
      void granted.then((given) => given?.permit.cancel());
    };
    const timer = setTimeout(drop, KEPT_MS).unref();
    this.#spare = { granted, timer, drop };
  }

  /** The permit that was requested early; undefined when there is none. */
  async take(): Promise<GrantedPermit | undefined> {
    const spare = this.#spare;
    if (spare === undefined) return undefined;
    // While the permit is not there yet, it stays the spare one: the timer may still give it back.
    const given = await spare.granted;
    if (this.#spare !== spare) return undefined;
    clearTimeout(spare.timer);
    this.#spare = undefined;
    return given;
  }

  /** Gives it back at once. */
  drop(): void {
    this.#spare?.drop();
  }
}
