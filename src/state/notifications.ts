/**
 * Notifications of all processes together: what has been notified, and the messages that wait. What a
 * message says is not known here.
 */
import type { Redis } from "ioredis";
import { reading, type Reading } from "../ops/redis-reading.ts";
import type { Call } from "./commit.ts";
import type { Keys } from "./keys.ts";
import { Store } from "./store.ts";

/** Most messages that wait; further ones are left out. */
const MOST_WAITING = 100;

/** A process that has taken a message has sent it or died after this long, ms. */
const LEASE_MS = 15_000;

/** Pauses between two tries of a message, doubled each time: 5 s to 5 minutes, in hour windows. */
const FIRST_PAUSE_HOURS = 1 / 720;
const LONGEST_PAUSE_HOURS = 1 / 12;

/** A message that cannot be delivered for this many hour windows is given up. */
const GIVE_UP_HOURS = 6;

/** A message that the receiver refuses goes behind the others after this many more tries. */
const REFUSED_TRIES = 2;

export interface WaitingMessage {
  readonly id: string;
  /** When it was made, ms. */
  readonly at: number;
}

/** Why notifications are not delivered now. */
export interface NotifyFailure {
  readonly since: number;
  readonly why: string;
}

export type Settled = "sent" | "failed" | "given_up" | "gone";

export class Notifications<Message extends WaitingMessage = WaitingMessage> extends Store {
  readonly #hourMs: number;

  /** @param hourMs length of the quota's hour window. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    super(redis, keys);
    this.#hourMs = hourMs;
  }

  /** Whether this process is to look now for what has begun and ended: one process does in this time, ms. */
  claimLook(forMs: number): Promise<boolean> {
    return this.claimFor(this.keys.notifyLook, forMs);
  }

  /** What was kept last; "" before the first time. */
  async state(): Promise<string> {
    return (await this.redis.get(this.keys.notify)) ?? "";
  }

  /**
   * Replaces the state and queues the messages of the change, together.
   * @returns how many messages were left out; undefined when another process was faster: nothing was
   *   changed then.
   */
  async change(
    before: string,
    next: string,
    messages: readonly Message[],
  ): Promise<number | undefined> {
    const { notify, notifyQueue } = this.keys;
    const room = Math.max(0, MOST_WAITING - (await this.redis.llen(notifyQueue)));
    const texts = messages.slice(0, room).map((message) => JSON.stringify(message));
    const isRead = ["GET", notify, before] as const;
    const queued: Call[] = texts.length === 0 ? [] : [["RPUSH", notifyQueue, ...texts]];
    const isWritten = await this.commit([isRead], [["SET", notify, next], ...queued]);
    return isWritten ? messages.length - texts.length : undefined;
  }

  /**
   * The oldest message, for one try by this process; undefined while none is due. It stays where it is; if this process
   * dies, another one takes it after the lease.
   */
  async take(): Promise<{ message: Message; tries: number } | undefined> {
    const { notifyQueue, notifyTry } = this.keys;
    const [head, tried, now] = await Promise.all([
      this.redis.lindex(notifyQueue, 0),
      this.redis.hgetall(notifyTry),
      this.time(),
    ]);
    if (head === null) return undefined;
    const message = JSON.parse(head) as Message;
    const isSame = tried["of"] === message.id;
    if (isSame && now < Number(tried["due"])) return undefined;
    const tries = isSame ? Number(tried["tries"]) : 0;
    const areRead = ["of", "tries", "due"].map(
      (field) => ["HGET", notifyTry, field, tried[field] ?? ""] as const,
    );
    const isTaken = await this.commit(
      [["LINDEX", notifyQueue, 0, head], ...areRead],
      [["HSET", notifyTry, "of", message.id, "tries", tries + 1, "due", now + LEASE_MS]],
    );
    return isTaken ? { message, tries } : undefined;
  }

  /**
   * @param failed why it was not delivered, how long the receiver asks to wait, and whether it refuses
   *   this message: after some tries the others go first.
   */
  async settle(
    { id }: WaitingMessage,
    tries: number,
    failed?: {
      readonly why: string;
      readonly waitMs: number | undefined;
      readonly isRefused?: boolean;
    },
  ): Promise<Settled> {
    const { notifyQueue, notifyTry } = this.keys;
    const [head, now] = await Promise.all([this.redis.lindex(notifyQueue, 0), this.time()]);
    const message = head === null ? undefined : (JSON.parse(head) as Message);
    if (head === null || message?.id !== id) return "gone";
    const hourMs = this.#hourMs;
    const hasTime = now - message.at < hourMs * GIVE_UP_HOURS;
    const goesBehind = hasTime && failed?.isRefused === true && tries >= REFUSED_TRIES;
    const calls: Call[] = [];
    if (failed === undefined || !hasTime || goesBehind) calls.push(["LPOP", notifyQueue]);
    if (goesBehind) calls.push(["RPUSH", notifyQueue, head]);
    if (failed === undefined) calls.push(["DEL", notifyTry]);
    else {
      const longestMs = hourMs * LONGEST_PAUSE_HOURS;
      const ownMs = hourMs * FIRST_PAUSE_HOURS * 2 ** Math.min(tries, 10);
      const pauseMs = Math.min(Math.max(ownMs, failed.waitMs ?? 0), longestMs);
      calls.push(
        ["HSETNX", notifyTry, "since", now],
        ["HSET", notifyTry, "why", failed.why, "due", now + Math.ceil(pauseMs)],
        ["PEXPIRE", notifyTry, Math.ceil(hourMs)],
      );
    }
    if (!(await this.commit([["LINDEX", notifyQueue, 0, head]], calls))) return "gone";
    return failed === undefined ? "sent" : hasTime ? "failed" : "given_up";
  }

  failure(): Reading<NotifyFailure | undefined> {
    return reading(["hmget", this.keys.notifyTry, "since", "why"], (fields) => {
      const [since, why] = fields as (string | null)[];
      return since === null || since === undefined || why === null || why === undefined
        ? undefined
        : { since: Number(since), why };
    });
  }

  waiting(): Reading<number> {
    return reading(["llen", this.keys.notifyQueue], Number);
  }
}
