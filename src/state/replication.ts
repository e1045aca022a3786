/**
 * Lets an answer wait until a replica has what was written for it. Redis acknowledges a write before
 * its replicas have it: without this, a replica that takes over may lack an event that was answered
 * with 202. docs/adr/0015 has the measurement.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Redis } from "ioredis";

/** How old the number of replicas may be, ms. */
const COUNTED_FOR_MS = 1000;

/** Longest wait for a replica, ms. */
const WAIT_MS = 500;

/** After a replica was late, nothing waits for this long, ms: a hanging one must not stop intake. */
const PAUSE_MS = 10_000;

export class Replication {
  readonly #redis: Redis;
  readonly #onLate: () => void;
  #replicas = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  #lateUntil = Number.NEGATIVE_INFINITY;
  #next: Promise<void> | undefined;

  /** @param redis the connection of the writes. @param onLate no replica has confirmed in time. */
  constructor(redis: Redis, onLate: () => void) {
    this.#redis = redis;
    this.#onLate = onLate;
  }

  /** Resolves when a replica has all that this connection has written, or cannot have it in time. */
  async confirm(): Promise<void> {
    if (performance.now() < this.#lateUntil || (await this.count()) === 0) return;
    await (this.#next ??= this.#wait());
  }

  /** One WAIT for all writes before it: until it is answered, Redis takes nothing from this connection. */
  async #wait(): Promise<void> {
    await nextTurn();
    this.#next = undefined;
    if ((await this.#redis.wait(1, WAIT_MS)) > 0) return;
    this.#lateUntil = performance.now() + PAUSE_MS;
    this.#onLate();
  }

  /** Replicas at present, or a moment ago. */
  async count(): Promise<number> {
    const now = performance.now();
    if (now - this.#countedAt > COUNTED_FOR_MS) {
      this.#replicas = onlineReplicas(await this.#redis.info("replication"));
      this.#countedAt = now;
    }
    return this.#replicas;
  }
}

/** Replicas that receive what is written now, by INFO. */
export const onlineReplicas = (info: string): number =>
  [...info.matchAll(/^slave\d+:.*\bstate=online\b/gm)].length;
