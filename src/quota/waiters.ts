/** Those of this process who wait for a permit: live before bulk, each lane in its order. */
import type { Lane } from "../sync/lane.ts";
import type { Permit } from "./permit.ts";

export interface Waiter {
  readonly lane: Lane;
  grant(permit: Permit): void;
}

export function createWaiters() {
  const waiting = new Set<Waiter & { reject(reason: unknown): void }>();
  let changed = Promise.withResolvers<void>();

  function tell(): void {
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
          tell();
        };
        const waiter = {
          lane,
          grant: (permit: Permit) => (end(), resolve(permit)),
          reject: (reason: unknown) => (end(), reject(reason)),
        };
        const giveUp = () => waiter.reject(signal?.reason);
        signal?.addEventListener("abort", giveUp, { once: true });
        waiting.add(waiter);
        tell();
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

    /** Resolves as soon as somebody comes or leaves. */
    change: () => changed.promise,

    rejectAll(reason: unknown): void {
      for (const waiter of waiting) waiter.reject(reason);
    },
  };
}

/** Resolves after this long, or earlier with the promise. */
export async function passedOr(event: Promise<void>, ms: number): Promise<void> {
  const passed = Promise.withResolvers<void>();
  const timer = setTimeout(passed.resolve, ms);
  await Promise.race([passed.promise, event]);
  clearTimeout(timer);
}
