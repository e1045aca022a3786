/** Tells waiting loops, over all processes, that there is something to do. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";

export class JobNotifier {
  readonly #subscriber: Redis;
  readonly #listeners = new Set<(lane: string) => void>();
  #heard = 0;

  /** @param subscriber a client of its own: a subscribed one can do nothing else. */
  constructor(subscriber: Redis, keys: Keys) {
    this.#subscriber = subscriber;
    this.#subscriber.on("message", (_channel: string, lane: string) => {
      this.#heard += 1;
      for (const listener of this.#listeners) listener(lane);
    });
    // The client subscribes again by itself after a reconnection.
    this.#subscriber.subscribe(keys.jobsAdded).catch(() => {});
  }

  /** How many wake-ups were heard; give it to `wait`, so that none falls between look and wait. */
  get heard(): number {
    return this.#heard;
  }

  /** Calls back with the lane of every wake-up until the returned function is called. */
  listen(listener: (lane: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves after `ms`, or when `signal` is aborted; wake-ups do not count. */
  pause(ms: number, signal: AbortSignal): Promise<void> {
    return sleep(ms, undefined, { signal }).catch(() => {});
  }

  /** Resolves at the next wake-up since `heard`, after `timeoutMs`, or when `signal` is aborted. */
  wait(timeoutMs: number, signal: AbortSignal, heard = this.#heard): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        unlisten();
        resolve();
      };
      const unlisten = this.listen(done);
      const timer = setTimeout(done, timeoutMs);
      signal.addEventListener("abort", done, { once: true });
      if (signal.aborted || this.#heard !== heard) done();
    });
  }
}
