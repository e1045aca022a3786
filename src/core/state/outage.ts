/**
 * The circuit breaker (src/core/sync/breaker.ts) that all processes share in Redis: together they try a service
 * that is down once per pause, instead of spending the quota on it.
 */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../../base/redis-reading.ts";
import {
  claim,
  CLOSED,
  hear,
  isQuiet,
  notTried,
  type Breaker,
  type Heard,
  type Open,
} from "../sync/breaker.ts";
import type { UnavailableReason } from "../sync/service-reply.ts";
import { type Call, Store } from "./store.ts";
import { digestOf, type Keys } from "./keys.ts";

/** These say nothing about the service: this process was too slow, or one record has a problem. */
const NO_FAILURE: ReadonlySet<string> = new Set<UnavailableReason>([
  "stale_permit",
  "slept",
  "closed",
  "forbidden",
  "unconfirmed",
]);

/** Failures on the way from this process to the service: they also pause this process by itself. */
const FAILURES_HERE: ReadonlySet<string> = new Set<UnavailableReason>(["dns", "proxy"]);

/** So much later than others such a process tries again: they may have another way. */
const HERE_LATER_MS = 2000;

export interface OutageOptions {
  /** The longest that a request may take, ms. */
  readonly tryMs?: number;
  /** For how long the rejection of everything is not believed, ms. */
  readonly believeMs?: number;
  /** Of the quota. */
  readonly hourMs?: number;
  /** A clock that never steps, ms. */
  readonly now?: () => number;
}

/** The breaker before and after a reply. */
export interface Change {
  readonly before: Breaker;
  readonly after: Breaker;
}

const FIELD = "breaker";

export class Outage extends Store {
  readonly #tryMs: number;
  readonly #believeMs: number;
  readonly #now: () => number;
  /** Of the failures here alone. */
  #here = CLOSED;
  /** As this process saw the shared one last; at first it may be anything. */
  #seen: Breaker | undefined;
  /** Whether this process makes the one try. */
  #isTrying = false;
  #hasChecked = false;
  readonly #hourMs: number;

  constructor(redis: Redis, keys: Keys, options: OutageOptions = {}) {
    super(redis, keys);
    const { tryMs = 0, believeMs = 300_000, hourMs = 3_600_000 } = options;
    const { now = () => performance.now() } = options;
    this.#hourMs = hourMs;
    this.#tryMs = tryMs;
    this.#believeMs = believeMs;
    this.#now = now;
  }

  /**
   * @param isFirst whether it is the first failure of that record's change.
   * @param told what people are shown instead of `reason`.
   */
  async failed(reason: string, isFirst: boolean, told = reason): Promise<Change | undefined> {
    if (NO_FAILURE.has(reason)) return this.notTried();
    const failure = { kind: "failed", reason, told, isFirst } as const;
    if (FAILURES_HERE.has(reason)) {
      // A request that fails during a pause was in flight when the pause began.
      const isTry = (this.#here.open?.nextTryAt ?? 0) <= this.#now();
      this.#here = hear(this.#here, { ...failure, isFirst: true }, isTry, this.#now(), 0);
    }
    return this.#hear(failure);
  }

  /** @param again whether its rejection was put off before. */
  rejected(crmCode: string, again: boolean): Promise<Change> {
    this.#here = CLOSED;
    return this.#hear({ kind: "rejected", record: digestOf(crmCode), again });
  }

  /** A usable reply. @param again whether the record's rejection was put off before. */
  async answered(isAccepted: boolean, again = false): Promise<Change | undefined> {
    this.#here = CLOSED;
    // Redis is written once per recovery of this process, not at each reply.
    if (this.#seen !== undefined && isQuiet(this.#seen) && !again) return undefined;
    return this.#hear(isAccepted ? { kind: "accepted", again } : { kind: "answered" });
  }

  /** If this process has the one try: no request was made, or it says nothing about the service. */
  async notTried(): Promise<undefined> {
    if (this.#isTrying) await this.#change(notTried);
    this.#isTrying = false;
  }

  /** Whether this process makes the one try of an open breaker. */
  get isTrying(): boolean {
    return this.#isTrying;
  }

  /** How long to wait before a request may be tried, ms; 0: this process may make it now. */
  async waitMs(): Promise<number> {
    const here = claim(this.#here, this.#now() - HERE_LATER_MS, 0).waitMs;
    if (here > 0) return Math.ceil(here);
    this.#seen = breakerOf(await this.redis.hget(this.keys.outage, FIELD));
    if (this.#seen.open === undefined) return 0;
    let waitMs = 0;
    const claimed = await this.#change((before, now) => {
      const asked = claim(before, now, this.#tryMs);
      ({ waitMs } = asked);
      return asked.breaker;
    });
    if (waitMs === 0) this.#isTrying = claimed.after.open !== undefined;
    return Math.ceil(waitMs);
  }

  /**
   * Whether a write that was just answered is read once more: one an hour is, and the first one after this process has
   * started, or a denial or an outage has ended (they delete the key).
   */
  async isToBeChecked(): Promise<boolean> {
    const { spotCheck } = this.keys;
    if (!this.#hasChecked) await this.redis.del(spotCheck);
    this.#hasChecked = true;
    // Nearly always it is set: a read costs half of what the claim does.
    if ((await this.redis.exists(spotCheck)) === 1) return false;
    return this.claimFor(spotCheck, this.#hourMs);
  }

  /** Reads whether it is open without asking for a try; undefined: it is not. */
  current(): Promise<Open | undefined> {
    return readOne(this.redis, this.reading());
  }

  reading(): Reading<Open | undefined> {
    return reading(
      ["hget", this.keys.outage, FIELD],
      (text: string | null) => breakerOf(text).open,
    );
  }

  async #hear(heard: Heard): Promise<Change> {
    const isTry = this.#isTrying;
    this.#isTrying = false;
    return this.#change((before, now) => hear(before, heard, isTry, now, this.#believeMs));
  }

  /** While other processes change it too, one of them succeeds each time. */
  async #change(reduce: (before: Breaker, now: number) => Breaker): Promise<Change> {
    for (;;) {
      const { outage, spotCheck } = this.keys;
      const [text, now] = await Promise.all([this.redis.hget(outage, FIELD), this.time()]);
      const before = breakerOf(text);
      const after = reduce(before, now);
      const next = textOf(after);
      const isRead = ["HGET", outage, FIELD, text ?? ""] as const;
      const calls: Call[] = [
        ["DEL", outage],
        ...(next === "" ? [] : [["HSET", outage, FIELD, next] as const]),
        ...(before.open && !after.open ? [["DEL", spotCheck] as const] : []),
      ];
      if (next === isRead[3] || (await this.commit([isRead], calls))) {
        this.#seen = after;
        return { before, after };
      }
    }
  }
}

const breakerOf = (text: string | null): Breaker =>
  text === null ? CLOSED : (JSON.parse(text) as Breaker);

const textOf = (breaker: Breaker): string =>
  isQuiet(breaker) && breaker.doubtedSince === undefined ? "" : JSON.stringify(breaker);
