/**
 * Notifications of all processes together: what has been notified, and the messages that wait. What a
 * message says is not known here.
 */
import type { Redis } from "ioredis";
import { reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
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
  readonly #change: RedisScript<number>;
  readonly #take: RedisScript<[] | [message: string, tries: number]>;
  readonly #settle: RedisScript<Settled>;

  /** @param hourMs length of the quota's hour window. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    super(redis, keys);
    this.#hourMs = hourMs;
    this.#change = redisScript(redis, new URL("./lua/change-notify-state.lua", import.meta.url));
    this.#take = redisScript(redis, new URL("./lua/take-message.lua", import.meta.url));
    this.#settle = redisScript(redis, new URL("./lua/settle-message.lua", import.meta.url));
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
    const leftOut = await this.#change(
      [this.keys.notify, this.keys.notifyQueue],
      [before, next, MOST_WAITING, ...messages.map((message) => JSON.stringify(message))],
    );
    return leftOut === -1 ? undefined : leftOut;
  }

  /** The oldest message, for one try by this process; undefined while none is due. */
  async take(): Promise<{ message: Message; tries: number } | undefined> {
    const { notifyQueue, notifyTry } = this.keys;
    const [text, tries = 0] = await this.#take([notifyQueue, notifyTry], [LEASE_MS]);
    return text === undefined ? undefined : { message: JSON.parse(text) as Message, tries };
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
    const hourMs = this.#hourMs;
    const longestMs = hourMs * LONGEST_PAUSE_HOURS;
    const pauseMs = Math.min(hourMs * FIRST_PAUSE_HOURS * 2 ** Math.min(tries, 10), longestMs);
    const askedMs = Math.min(failed?.waitMs ?? 0, longestMs);
    const whole = [Math.max(pauseMs, askedMs), hourMs * GIVE_UP_HOURS, hourMs].map(Math.ceil);
    return this.#settle(
      [this.keys.notifyQueue, this.keys.notifyTry],
      [
        id,
        failed?.why ?? "",
        ...whole,
        failed?.isRefused === true && tries >= REFUSED_TRIES ? "1" : "",
      ],
    );
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
