/**
 * The public inbox: a BullMQ queue onto which any BullMQ client in any language may add a job
 * whose data is one CloudEvent. HTTP and the command line use this same door.
 */
import { Queue, type QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { addAll } from "./add-all.ts";
import { eventKey } from "./event-key.ts";

export const INBOX_QUEUE = "crm-events";

/** Events added in one round trip; bounds the size of one transaction in Redis. */
const CHUNK = 500;

/** What happened to a batch: events newly accepted, and those that wait already. */
export interface PushResult {
  readonly accepted: number;
  readonly duplicates: number;
}

export class Inbox {
  readonly queue: Queue;
  readonly #redis: Redis;

  /** @param redis a client for commands; the caller opens and closes it. */
  constructor(redis: Redis, prefix: string, tracing: Pick<QueueOptions, "telemetry"> = {}) {
    this.#redis = redis;
    this.queue = new Queue(INBOX_QUEUE, {
      ...tracing,
      connection: redis,
      prefix,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: false },
    });
    // A queue without a listener would turn a lost connection into an uncaught error; the
    // client's owner logs it.
    this.queue.on("error", () => {});
  }

  /**
   * Adds events, each once: one that waits here already is a duplicate. Resolves only when
   * Redis has all of them; a chunk of 500 is taken whole or not at all.
   */
  async push(events: readonly { source: string; id: string }[]): Promise<PushResult> {
    let accepted = 0;
    for (let start = 0; start < events.length; start += CHUNK) {
      const chunk = events.slice(start, start + CHUNK);
      const newest = Number((await this.#redis.get(this.queue.toKey("id"))) ?? 0);
      const ids = await addAll(
        this.queue,
        chunk.map((event) => ({
          name: "event",
          data: event,
          opts: { deduplication: { id: eventKey(event) } },
        })),
      );
      // A deduplicated add answers with the id of the job that is there already.
      accepted += new Set(ids.filter((id) => Number(id) > newest)).size;
    }
    return { accepted, duplicates: events.length - accepted };
  }

  /**
   * Takes out jobs that no worker can read, since a foreign client wrote data that is not JSON:
   * they would stall and come back for ever. Looks at what is being worked on.
   * @returns what they held.
   */
  async takeUnreadable(): Promise<{ id: string; data: string; timestamp: number }[]> {
    const ids = await this.#redis.lrange(this.queue.toKey("active"), 0, -1);
    const found: { id: string; data: string; timestamp: number }[] = [];
    for (const id of ids) {
      const [data, timestamp] = await this.#redis.hmget(this.queue.toKey(id), "data", "timestamp");
      if (data === null || data === undefined || isJson(data)) continue;
      // The worker that stumbled over it still holds its lock.
      await this.#redis.del(`${this.queue.toKey(id)}:lock`);
      if ((await this.queue.remove(id)) === 1)
        found.push({ id, data, timestamp: Number(timestamp) });
    }
    return found;
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
