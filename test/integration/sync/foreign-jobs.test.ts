/** Jobs that another client has put into the queue of pointer jobs. */
import { Queue } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { SYNC_QUEUE } from "../../../src/state/pointer-queue.ts";
import { startSweep } from "../../../workers/sweep.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { waitFor } from "../../support/wait-for.ts";

/** As they lie in Redis. */
const DATA = ["null", '"text"', "5", "[]", "{}", '{"crmCode":5}', "not json"];

test("jobs of another client end, and changes are sent", async () => {
  const runtime = newRuntime();
  const { config, redis, staged } = runtime;
  const queue = new Queue(SYNC_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(DATA.map((_, n) => ({ name: "sync", data: {}, opts: { jobId: `f${n}` } })));
  for (const [n, data] of DATA.entries()) await redis.hset(queue.toKey(`f${n}`), "data", data);
  await staged.stage({
    crmCode: "4711",
    payload: "{}",
    eventKey: "key",
    order: "1",
    fingerprint: "f",
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: Date.now(),
    event: "{}",
  });
  const service = new ScriptedService();
  const sync = startSync(runtime, service.access());
  onTestFinished(() => sync.close());
  (await service.nth(1)).reply({ kind: "created" });
  await waitFor(async () => (await queue.getActiveCount()) === 1, {
    what: "only what no worker can read is left",
  });
  const sweep = startSweep(runtime);
  onTestFinished(() => sweep.close());
  await expect.poll(() => redis.keys(queue.toKey("f*"))).toEqual([]);
});
