import { Queue, type QueueOptions } from "bullmq";
import type { Redis } from "ioredis";

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

/** Cuts the stream: the client that was opened last sets how long it may become. */
export async function keepStreamShort(queue: Queue): Promise<void> {
  await queue.trimEvents(STREAM_LENGTH);
}
