import { Queue, type QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";

/** BullMQ writes each step of a job to a stream. Only people look at it, with tools that read its end. */
const STREAM_LENGTH = 100;

/** @param redis a client for commands; the caller opens and closes it. */
export function openQueue<Data>(
  name: string,
  redis: Redis,
  options: Omit<QueueOptions, "connection">,
): Queue<Data> {
  const queue = new Queue<Data>(name, {
    ...options,
    connection: redis,
    streams: { events: { maxLen: STREAM_LENGTH } },
  });
  // Without a listener a lost connection would be an uncaught error. The client's owner logs it.
  queue.on("error", () => {});
  return queue;
}

/** Where a queue keeps the length of its stream: the client that was opened last has set it. */
const LENGTH_FIELD = "opts.maxLenEvents";

/** Sets the length again if another client has set its own, and cuts the stream. */
export async function keepStreamShort(redis: Redis, queue: Queue): Promise<void> {
  const meta = queue.toKey("meta");
  const length = await redis.hget(meta, LENGTH_FIELD);
  if (length === null || Number(length) === STREAM_LENGTH) return;
  await redisWrite(redis)("HSET", meta, LENGTH_FIELD, STREAM_LENGTH);
  await redis.xtrim(queue.toKey("events"), "MAXLEN", "~", STREAM_LENGTH);
}
