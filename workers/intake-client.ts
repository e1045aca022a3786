/**
 * The inbox as the HTTP door needs it: through a client of its own that fails fast, since a
 * sender that waits would rather be told 503 and come again.
 */
import { once } from "node:events";
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import { Inbox, type PushResult } from "../src/event/inbox.ts";
import type { Tracing } from "../src/ops/tracing.ts";
import type { Keys } from "../src/state/keys.ts";
import type { Encryption } from "../src/state/encryption.ts";
import { StagedStates } from "../src/state/staged-state.ts";

/** Longest wait for one command, ms. */
const COMMAND_TIMEOUT_MS = 5000;

export class IntakeClient {
  readonly #redis: Redis;
  readonly #inbox: Inbox;
  readonly #staged: StagedStates;
  readonly #keys: Keys;

  constructor(
    url: string,
    prefix: string,
    keys: Keys,
    seal: Encryption,
    onError: (e: Error) => void,
    tracing: Tracing,
  ) {
    this.#redis = new Redis(url, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: COMMAND_TIMEOUT_MS,
    });
    this.#redis.on("error", onError);
    this.#keys = keys;
    this.#inbox = new Inbox(this.#redis, prefix, tracing.bullmq);
    this.#staged = new StagedStates(this.#redis, keys, seal);
  }

  push(events: readonly { source: string; id: string }[]): Promise<PushResult> {
    return this.#inbox.push(events);
  }

  /** Which of these event keys were worked on within the last seven days. */
  seen(eventKeys: readonly string[]): Promise<ReadonlySet<string>> {
    return this.#staged.seen(eventKeys);
  }

  /** Whether this request is new; it is then remembered for so many seconds. */
  async claim(request: string, forSeconds: number): Promise<boolean> {
    return (await this.#redis.set(this.#requestKey(request), "1", "EX", forSeconds, "NX")) === "OK";
  }

  async unclaim(request: string): Promise<void> {
    await this.#redis.del(this.#requestKey(request));
  }

  #requestKey(request: string): string {
    return this.#keys.request(createHash("sha256").update(request).digest("base64url"));
  }

  async answers(): Promise<boolean> {
    return this.#redis.ping().then(
      () => true,
      () => false,
    );
  }

  /** Resolves once Redis is there, or after `deadlineMs`: then requests are answered 503. */
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
