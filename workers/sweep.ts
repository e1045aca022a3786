/**
 * Puts right what a crash left half done, and forgets what is old: re-adds staged records that
 * have no job. Runs as a scheduled job on a queue of its own, since the sync loop may wait an
 * hour for a permit; running twice at once does no harm.
 */
import { Queue, Worker } from "bullmq";
import { LANES } from "../src/spec/lane.ts";
import type { Runtime } from "./runtime.ts";

const SWEEP_QUEUE = "sweep";
const EVERY_MS = 10_000;

/** Records looked at in one round trip. */
const CHUNK = 500;

export interface Sweep {
  close(): Promise<void>;
}

export async function startSweep(runtime: Runtime): Promise<Sweep> {
  const { redis, config, log, throttle } = runtime;
  const options = { connection: redis, prefix: config.QUEUE_PREFIX };
  const queue = new Queue(SWEEP_QUEUE, options);
  queue.on("error", () => {});
  const worker = new Worker(SWEEP_QUEUE, () => sweep(runtime), {
    ...options,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 10 },
  });
  worker.on("error", (error) => {
    throttle("sweep.error", (held) => log.warn({ err: error, held }, "sweep.error"));
  });
  worker.on("failed", (_job, error) => log.error({ err: error }, "sweep.failed"));
  await queue.upsertJobScheduler("sweep", { every: EVERY_MS }, { name: "sweep" });
  return {
    async close() {
      await worker.close();
      await queue.close();
    },
  };
}

/**
 * Adding is harmless for a record whose job is just on its way: it is not added twice.
 * @returns how many records got a job again.
 */
export async function sweep(runtime: Runtime): Promise<number> {
  const { redis, keys, pointers, log } = runtime;
  let mended = 0;
  for (const lane of LANES) {
    let cursor = "0";
    do {
      const [next, flat] = await redis.zscan(keys.unsynced(lane), cursor, "COUNT", CHUNK);
      cursor = next;
      const crmCodes = flat.filter((_, index) => index % 2 === 0);
      const lost = await pointers.withoutJob(crmCodes);
      if (lost.length > 0) await pointers.add(lost.map((crmCode) => ({ crmCode, lane })));
      mended += lost.length;
    } while (cursor !== "0");
  }
  if (mended > 0) log.info({ records: mended }, "sweep.mended");
  return mended;
}
