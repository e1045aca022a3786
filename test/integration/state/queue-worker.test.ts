/** The jobs of a process that died are taken by another one, also after a rest. */
import { Worker } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { checkStalled } from "../../../workers/queue-worker.ts";
import { Rest } from "../../../workers/rest.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const EVERY_MS = 50;

function workerOf({ config, inbox, redis }: Runtime): Worker {
  const worker = new Worker(inbox.queue.name, null, {
    connection: redis.duplicate(),
    prefix: config.QUEUE_PREFIX,
    autorun: false,
    lockDuration: EVERY_MS,
    skipLockRenewal: true,
    skipStalledCheck: true,
    stalledInterval: EVERY_MS,
    maxStalledCount: 5,
  });
  onTestFinished(() => worker.close());
  return worker;
}

function check(runtime: Runtime): void {
  const checks = checkStalled(runtime, workerOf(runtime), EVERY_MS);
  onTestFinished(() => checks.close());
}

/** A worker that takes the only job and never ends it. */
async function abandon(runtime: Runtime): Promise<void> {
  await runtime.inbox.queue.add("event", {});
  await workerOf(runtime).getNextJob("dead");
  expect(await runtime.inbox.queue.getActiveCount()).toBe(1);
}

const takenBack = ({ inbox }: Runtime) =>
  expect.poll(() => inbox.queue.getWaitingCount(), { timeout: 5000 }).toBe(1);

test("after a rest of this process", async () => {
  const runtime = { ...newRuntime(), rest: new Rest() };
  check(runtime);
  runtime.rest.begin();
  const look = runtime.inbox.queue.toKey("stalled-check");
  // The last check before the rest is over, and no other one takes place.
  await expect.poll(() => runtime.redis.exists(look)).toBe(0);
  await abandon(runtime);
  runtime.rest.wake();
  await takenBack(runtime);
});

test("after another program has forbidden all checks, before the first one and later", async () => {
  const runtime = newRuntime();
  const forbid = () =>
    runtime.redis.set(runtime.inbox.queue.toKey("stalled-check"), "1", "PX", 2 ** 31 - 1);
  await abandon(runtime);
  await forbid();
  check(runtime);
  await takenBack(runtime);
  await workerOf(runtime).getNextJob("dead too");
  await forbid();
  await takenBack(runtime);
});
