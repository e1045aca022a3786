import { Worker } from "bullmq";
import { expect, it, onTestFinished } from "vitest";
import { FETCH_QUEUE } from "../../../src/core/state/thin-events.ts";
import { startFetch } from "../../../workers/fetch.ts";
import type { Parts } from "../../../workers/parts.ts";
import { startChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Takes a fetch and dies, for the last time that BullMQ forgives. */
async function dieWithFetch({ config, redis, thinEvents }: Parts): Promise<void> {
  const worker = new Worker(FETCH_QUEUE, null, {
    connection: redis,
    prefix: config.QUEUE_PREFIX,
    autorun: false,
    maxStalledCount: 0,
    lockDuration: 50,
    stalledInterval: 50,
    skipLockRenewal: true,
  });
  worker.on("error", () => {});
  await worker.waitUntilReady();
  expect(await worker.getNextJob("dead", { block: false })).toBeDefined();
  await worker.startStalledCheckTimer();
  await waitFor(async () => (await thinEvents.queue.getActiveCount()) === 0, {
    what: "the job was taken back",
  });
  await worker.close(true);
}

it("a thin event whose workers died again and again becomes a dead letter", async () => {
  const runtime = newRuntime();
  const { deadLetters, thinEvents } = runtime;
  const event = personEvent("4711");
  const pointer = { crm: "hubspot", subject: "contact/4711" };
  await thinEvents.put(pointer, "2026-11-21T00:00:00.000Z\t\t1", JSON.stringify(event), "live");
  await dieWithFetch(runtime);
  const fetch = startFetch(runtime);
  onTestFinished(() => fetch.close());
  startChore(runtime, "sweep");
  const [id] = await waitFor(
    async () => {
      const ids = await runtime.redis.hkeys(runtime.keys.deadLetters);
      return ids.length > 0 && ids;
    },
    { what: "a dead letter" },
  );
  const letter = await deadLetters.find(id ?? "");
  expect(letter?.reason).toBe("defect");
  expect(letter?.problems[0]?.rule).toMatch(/stalled/);
  expect(JSON.parse(letter?.event ?? "")).toEqual(event);
  expect(letter?.source).toBe(event.source);
  await waitFor(async () => (await thinEvents.queue.getFailedCount()) === 0, { what: "no job" });
  expect(await thinEvents.take(pointer)).toBeUndefined();
});

it("a newer event of the record, which has a fetch of its own, is left alone", async () => {
  const runtime = newRuntime();
  const { deadLetters, redis, thinEvents } = runtime;
  const pointer = { crm: "hubspot", subject: "contact/4711" };
  const put = (at: string) =>
    thinEvents.put(pointer, `${at}\t\t1`, JSON.stringify(personEvent("4711")), "live");
  await put("2026-11-21T00:00:00.000Z");
  await dieWithFetch(runtime);
  // The worker that BullMQ gives the job to fails it.
  const worker = new Worker(FETCH_QUEUE, async () => {}, {
    connection: redis,
    prefix: runtime.config.QUEUE_PREFIX,
  });
  await waitFor(async () => (await thinEvents.queue.getFailedCount()) === 1, { what: "failed" });
  await worker.close();
  await put("2026-11-21T00:00:01.000Z");
  startChore(runtime, "sweep");
  await waitFor(async () => (await thinEvents.queue.getFailedCount()) === 0, { what: "no job" });
  expect(await deadLetters.count()).toBe(0);
  expect(await thinEvents.take(pointer)).toBeDefined();
  expect(await thinEvents.queue.getWaitingCount()).toBe(1);
});
