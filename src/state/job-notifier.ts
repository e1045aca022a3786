/** Tells the waiting loops of all processes that a lane has got work. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";

export class JobNotifier {
  readonly #listeners = new Set<(heard: string) => void>();
  #heard = 0;

  /** @param subscriber a client for this only: a subscribed client can send no other commands. */
  constructor(subscriber: Redis, keys: Keys) {
    subscriber.on("message", (_channel: string, heard: string) => this.wake(heard));
    // The client subscribes again by itself after a reconnection.
    subscriber.subscribe(keys.jobsAdded).catch(() => {});
  }

  /** Notifications so far. Read it before you check for work and pass it to `wait`: none is missed. */
  get heard(): number {
    return this.#heard;
  }

  /** Ends the waits of this process, as a notification would. */
  wake(heard = ""): void {
    this.#heard += 1;
    for (const listener of this.#listeners) listener(heard);
  }

  /** Calls back with every notification (`jobsAdded` in keys.ts), until the returned function is called. */
  listen(listener: (heard: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves after `ms`, or when `signal` is aborted; notifications do not end it. */
  pause(ms: number, signal: AbortSignal): Promise<void> {
    return sleep(ms, undefined, { signal }).catch(() => {});
  }

  /** Resolves at the next notification after `heard`, after `timeoutMs`, or on abort of `signal`. */
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
