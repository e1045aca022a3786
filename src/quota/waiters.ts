/** The calls of this process that wait for a permit: live before bulk, each lane in its order. */
import type { Lane } from "../sync/lane.ts";
import type { Permit } from "./permit.ts";

export interface Waiter {
  readonly lane: Lane;
  grant(permit: Permit): void;
}

export type Waiters = ReturnType<typeof createWaiters>;

export function createWaiters() {
  const waiting = new Set<Waiter & { reject(reason: unknown): void }>();
  let changed = Promise.withResolvers<void>();

  function notify(): void {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  }

  return {
    add(lane: Lane, signal: AbortSignal | undefined): Promise<Permit> {
      return new Promise((resolve, reject) => {
        signal?.throwIfAborted();
        const end = () => {
          waiting.delete(waiter);
          signal?.removeEventListener("abort", giveUp);
          notify();
        };
        const waiter = {
          lane,
          grant: (permit: Permit) => (end(), resolve(permit)),
          reject: (reason: unknown) => (end(), reject(reason)),
        };
        const giveUp = () => waiter.reject(signal?.reason);
        signal?.addEventListener("abort", giveUp, { once: true });
        waiting.add(waiter);
        notify();
      });
    },

    next(): Waiter | undefined {
      let first: Waiter | undefined;
      for (const waiter of waiting) {
        if (waiter.lane === "live") return waiter;
        first ??= waiter;
      }
      return first;
    },

    /** Resolves when the next waiter is added or removed. */
    change: () => changed.promise,

    rejectAll(reason: unknown): void {
      for (const waiter of waiting) waiter.reject(reason);
    },
  };
}

/** Resolves after `ms`, or earlier when `event` resolves. */
export async function passedOr(event: Promise<void>, ms: number): Promise<void> {
  const passed = Promise.withResolvers<void>();
  const timer = setTimeout(passed.resolve, ms);
  await Promise.race([passed.promise, event]);
  clearTimeout(timer);
}
