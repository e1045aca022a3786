/**
 * HTTP intake's own Redis client, which fails fast: a sender prefers a 503 at once, and a second try,
 * to a long wait.
 */
import { once } from "node:events";
import type { Redis } from "ioredis";
import type { ContentHash } from "../src/core/event/event-order.ts";
import { Inbox, type PushResult } from "../src/core/event/inbox.ts";
import { openRedis, type RedisTarget } from "../src/base/open-redis.ts";
import { readOne } from "../src/base/redis-reading.ts";
import type { Tracing } from "../src/base/tracing.ts";
import { digestOf, type Keys } from "../src/core/state/keys.ts";
import type { Sealing } from "../src/core/state/sealing.ts";
import {
  healthReading,
  MemoryGate,
  writesRejected,
  Replication,
} from "../src/core/state/redis-health.ts";
import { RecordStore } from "../src/core/state/record-store.ts";
import { StagedStates } from "../src/core/state/staged-state.ts";

/** Longest wait for one command, ms. */
const COMMAND_TIMEOUT_MS = 5000;

export interface IntakeClientOptions {
  readonly target: RedisTarget;
  readonly keys: Keys;
  readonly sealing: Sealing;
  readonly tracing: Tracing;
  readonly onError: (error: Error) => void;
  /** An event is acknowledged that no replica has confirmed. */
  readonly onReplicaLate: () => void;
}

export class IntakeClient {
  readonly #redis: Redis;
  readonly #inbox: Inbox;
  readonly #memory: MemoryGate;
  readonly #replication: Replication;
  readonly #staged: StagedStates;
  readonly #keys: Keys;

  constructor({ target, keys, sealing, tracing, onError, onReplicaLate }: IntakeClientOptions) {
    this.#redis = openRedis(target, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: COMMAND_TIMEOUT_MS,
    });
    this.#redis.on("error", onError);
    this.#memory = new MemoryGate(this.#redis);
    this.#replication = new Replication(this.#redis, onReplicaLate);
    this.#keys = keys;
    this.#inbox = new Inbox(this.#redis, target.prefix, sealing, tracing.bullmq);
    this.#staged = new StagedStates(new RecordStore(this.#redis, keys, sealing));
  }

  /**
   * @param sentAt Redis' time, ms.
   * @throws when Redis is nearly full: what is left of its memory is for sync.
   */
  async push(
    events: readonly { source: string; id: string }[],
    sentAt: number,
    contentOf: ContentHash,
  ): Promise<PushResult> {
    if (await this.#memory.isClosed()) throw new Error("Redis is nearly full");
    const result = await this.#inbox.push(events, sentAt, contentOf);
    await this.#replication.confirm();
    return result;
  }

  /** Why Redis accepts no events now; undefined when it does. @throws when it does not answer. */
  async whyClosed(): Promise<string | undefined> {
    const [isWritable, health, isFull] = await Promise.all([
      this.#isWritable(),
      readOne(this.#redis, healthReading),
      this.#memory.isClosed(),
    ]);
    if (!isWritable || writesRejected(health) !== undefined) return "redis rejects writes";
    return isFull ? "redis is nearly full" : undefined;
  }

  /** Tries a write that changes nothing: it deletes a key that crmsync never sets. */
  async #isWritable(): Promise<boolean> {
    return this.#redis.del(this.#keys.request("")).then(
      () => true,
      (error: Error) => {
        if (/^(?:MISCONF|NOREPLICAS|READONLY)\b/.test(error.message)) return false;
        throw error;
      },
    );
  }

  /** Which of these events were processed within the last seven days, with the same content. */
  seen<Event extends { source: string; id: string }>(
    events: readonly Event[],
    contentOf: ContentHash,
  ): Promise<ReadonlySet<Event>> {
    // `push` follows and needs both: ask for them in the same round trip. `push` reports their errors.
    void this.#memory.isClosed().catch(() => {});
    void this.#replication.count().catch(() => {});
    return this.#staged.seen(events, contentOf);
  }

  /** Whether a signed request was accepted before. */
  async isRemembered(request: string): Promise<boolean> {
    return (await this.#redis.exists(this.#requestKey(request))) === 1;
  }

  /** Remembers a signed request for so many seconds. */
  async remember(request: string, forSeconds: number): Promise<void> {
    await this.#redis.set(this.#requestKey(request), "1", "EX", forSeconds);
  }

  #requestKey(request: string): string {
    return this.#keys.request(digestOf(request));
  }

  /** Resolves once Redis is connected, or after `deadlineMs`: requests are then answered 503. */
  async connected(deadlineMs: number): Promise<void> {
    if (this.#redis.status === "ready") return;
    const deadline = AbortSignal.timeout(deadlineMs);
    await once(this.#redis, "ready", { signal: deadline }).catch(() => {});
  }

  async close(): Promise<void> {
    await this.#inbox.close();
    this.#redis.disconnect();
  }
}
