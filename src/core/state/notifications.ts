/** Notifications of all processes together: what has been notified, and the messages that wait. */
import type { Redis } from "ioredis";
import type { Call } from "./store.ts";
import type { Keys } from "./keys.ts";
import { MessageQueue, type WaitingMessage } from "./message-queue.ts";

/** Most messages that wait; further ones are left out. */
const MOST_WAITING = 100;

/** A message that cannot be delivered for this many hour windows is given up. */
const GIVE_UP_HOURS = 6;

export class Notifications<
  Message extends WaitingMessage = WaitingMessage,
> extends MessageQueue<Message> {
  /** @param hourMs length of the quota's hour window. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    super(redis, keys, {
      queue: keys.notifyQueue,
      tried: keys.notifyTry,
      hourMs,
      giveUpHours: GIVE_UP_HOURS,
      giveUpRefusedHours: GIVE_UP_HOURS,
      failureHours: 1,
    });
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
}
