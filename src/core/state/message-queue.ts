/** Messages that wait to be sent: the oldest first, by one process at a time. What a message says is not known here. */
import type { Redis } from "ioredis";
import { backoffMs } from "../event/backoff.ts";
import { reading, type Reading } from "../../base/redis-reading.ts";
import { type Call, Store } from "./store.ts";
import type { Keys } from "./keys.ts";

/** A process that has taken a message has sent it or died after this long, ms. */
const LEASE_MS = 15_000;

/** Pauses between two tries of a message, doubled each time: 5 s to 5 minutes, in hour windows. */
const FIRST_PAUSE_HOURS = 1 / 720;
const LONGEST_PAUSE_HOURS = 1 / 12;

/** A message that the receiver refuses goes behind the others after this many more tries. */
const REFUSED_TRIES = 2;

export interface WaitingMessage {
  readonly id: string;
  /** When it was made, ms. */
  readonly at: number;
}

export type Settled = "sent" | "failed" | "given_up" | "gone";

/** Why a message was not delivered. */
export interface NotDelivered {
  readonly why: string;
  /** How long the receiver asks to wait, ms. */
  readonly waitMs: number | undefined;
  /** It refuses this message, and may take others. */
  readonly isRefused?: boolean;
}

export interface QueuePolicy {
  /** A list. */
  readonly queue: string;
  /** A hash: the tries of the oldest one. */
  readonly tried: string;
  /** Of the quota. */
  readonly hourMs: number;
  /** A message that cannot be delivered for so many hour windows is given up; so is one that is refused. */
  readonly giveUpHours: number;
  readonly giveUpRefusedHours: number;
  /** For how long it is remembered that messages are not delivered, in hour windows. */
  readonly failureHours: number;
}

export abstract class MessageQueue<Message extends WaitingMessage> extends Store {
  protected readonly policy: QueuePolicy;

  constructor(redis: Redis, keys: Keys, policy: QueuePolicy) {
    super(redis, keys);
    this.policy = policy;
  }

  /**
   * The oldest message, for one try by this process; undefined while none is due. It stays where it is; if this process
   * dies, another one takes it after the lease.
   */
  async take(): Promise<{ message: Message; tries: number } | undefined> {
    const { queue, tried: key } = this.policy;
    const [head, tried, now] = await Promise.all([
      this.redis.lindex(queue, 0),
      this.redis.hgetall(key),
      this.time(),
    ]);
    if (head === null) return undefined;
    const message = JSON.parse(head) as Message;
    const isSame = tried["of"] === message.id;
    if (isSame && now < Number(tried["due"])) return undefined;
    const tries = isSame ? Number(tried["tries"]) : 0;
    const areRead = ["of", "tries", "due"].map(
      (field) => ["HGET", key, field, tried[field] ?? ""] as const,
    );
    const isTaken = await this.commit(
      [["LINDEX", queue, 0, head], ...areRead],
      [["HSET", key, "of", message.id, "tries", tries + 1, "due", now + LEASE_MS]],
    );
    return isTaken ? { message, tries } : undefined;
  }

  async settle({ id }: WaitingMessage, tries: number, failed?: NotDelivered): Promise<Settled> {
    const { failureHours, giveUpHours, giveUpRefusedHours, hourMs, queue, tried } = this.policy;
    const [head, now] = await Promise.all([this.redis.lindex(queue, 0), this.time()]);
    const message = head === null ? undefined : (JSON.parse(head) as Message);
    if (head === null || message?.id !== id) return "gone";
    const isRefused = failed?.isRefused === true;
    const hasTime = now - message.at < hourMs * (isRefused ? giveUpRefusedHours : giveUpHours);
    const goesBehind = hasTime && isRefused && tries >= REFUSED_TRIES;
    const calls: Call[] = [];
    if (failed === undefined || !hasTime || goesBehind) calls.push(["LPOP", queue]);
    if (goesBehind) calls.push(["RPUSH", queue, head]);
    if (failed === undefined) calls.push(["DEL", tried]);
    else {
      const longestMs = hourMs * LONGEST_PAUSE_HOURS;
      const ownMs = backoffMs(tries + 1, { firstMs: hourMs * FIRST_PAUSE_HOURS, longestMs });
      const pauseMs = Math.min(Math.max(ownMs, failed.waitMs ?? 0), longestMs);
      calls.push(
        ["HSETNX", tried, "since", now],
        ["HSET", tried, "why", failed.why, "due", now + Math.ceil(pauseMs)],
        ["PEXPIRE", tried, Math.ceil(hourMs * failureHours)],
      );
    }
    if (!(await this.commit([["LINDEX", queue, 0, head]], calls))) return "gone";
    return failed === undefined ? "sent" : hasTime ? "failed" : "given_up";
  }

  /** Since when, and why messages are not delivered now. */
  failure() {
    return reading(
      ["hmget", this.policy.tried, "since", "why"],
      ([since, why]: [string | null, string | null]) =>
        since === null || why === null ? undefined : { since: Number(since), why },
    );
  }

  waiting(): Reading<number> {
    return reading(["llen", this.policy.queue], Number);
  }
}
