/** Jobs that are taken along: what BullMQ has of them afterwards, and which ones are left to BullMQ. */
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { AlongJobs } from "../../../src/event/along-jobs.ts";
import { INBOX_QUEUE, Inbox } from "../../../src/event/inbox.ts";
import { businessRelationMapping } from "../../../src/mapping/business-relation.ts";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { people, personEvent } from "../../support/person-event.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { grows, waitFor } from "../../support/wait-for.ts";

const LIMITS = { lockMs: 10_000, jobs: 100, bytes: 1e6 };

function newInbox(prefix = uniquePrefix()) {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const inbox = new Inbox(redis, prefix);
  onTestFinished(async () => {
    await inbox.close();
    redis.disconnect();
  });
  return { redis, inbox, prefix, queue: inbox.queue, along: new AlongJobs(redis, inbox.queue) };
}

const subjectsOf = (jobs: readonly { data: { subject: string } }[]) =>
  jobs.map(({ data }) => data.subject.slice("contact/".length));

/** Keys of the queue, without its prefix, and what is in them. */
async function contentOf({ queue, redis }: ReturnType<typeof newInbox>) {
  const root = queue.toKey("");
  const keys = (await redis.keys(`${root}*`)).map((key) => key.slice(root.length));
  const events = (await redis.xrange(queue.toKey("events"), "-", "+")).map(([, fields]) => {
    const named = new Map(fields.map((name, n) => [name, fields[n + 1]]));
    return `${named.get("event")} ${named.get("jobId") ?? ""}`.trim();
  });
  return { keys: keys.filter((key) => key !== "marker" && key !== "stalled-check"), events };
}

test("jobs that were taken along leave what a BullMQ worker leaves", async () => {
  const events = people(3) as { source: string; id: string }[];
  const [ours, bullmq] = [newInbox(), newInbox()];
  for (const { inbox } of [ours, bullmq]) await inbox.push(events);
  const jobs = await ours.along.take("me", LIMITS);
  expect(subjectsOf(jobs)).toEqual(["r0", "r1", "r2"]);
  await ours.along.end(jobs, "me");

  const worker = new Worker(INBOX_QUEUE, null, { connection: bullmq.redis, prefix: bullmq.prefix });
  for (let n = 0; n < 3; n += 1) {
    const job = await worker.getNextJob("me", { block: false });
    await job?.moveToCompleted(undefined, "me", false);
  }
  await worker.close();
  const [left, leftByBullmq] = [await contentOf(ours), await contentOf(bullmq)];
  expect(left.keys.toSorted()).toEqual(leftByBullmq.keys.toSorted());
  // Nobody needs to know that a job has begun; that the queue is empty is told with BullMQ's own last job.
  const told = leftByBullmq.events.filter((event) => !/^(active|drained)/.test(event));
  expect(left.events).toEqual(told);
  // The same events may be sent again.
  expect(await ours.inbox.push(events)).toEqual({ accepted: 3, duplicates: 0 });
});

test("a job that needs more than this, and all behind it, are left to BullMQ in their order", async () => {
  const { along, queue, redis } = newInbox();
  const add = (crmCode: string) => queue.add("event", personEvent(crmCode));
  for (const crmCode of ["a", "b", "c", "d"]) await add(crmCode);
  const [, second] = await queue.getWaiting();
  for (const field of ["atm", "stc", "defa", "progress", "parent", "parentKey", "rjk"]) {
    const key = queue.toKey(second?.id ?? "");
    await redis.hset(key, field, "1");
    const jobs = await along.take("me", LIMITS);
    expect(subjectsOf(jobs), field).toEqual(field === "atm" ? ["a"] : []);
    await along.end(jobs, "me");
    await redis.hdel(key, field);
  }
  expect(subjectsOf(await along.take("me", LIMITS))).toEqual(["b", "c", "d"]);
  expect(await queue.getJobCounts("wait", "active")).toEqual({ wait: 0, active: 3 });
});

test("no job is taken along from a queue that is paused or limited", async () => {
  const { along, queue } = newInbox();
  await queue.add("event", personEvent("a"));
  await queue.pause();
  expect(await along.take("me", LIMITS)).toEqual([]);
  await queue.resume();
  await queue.setGlobalConcurrency(5);
  expect(await along.take("me", LIMITS)).toEqual([]);
  await queue.removeGlobalConcurrency();
  await queue.setGlobalRateLimit(1, 1000);
  expect(await along.take("me", LIMITS)).toEqual([]);
  await queue.removeGlobalRateLimit();
  expect(await along.take("me", LIMITS)).toHaveLength(1);
});

test("as many jobs are taken along as asked for, and no more than fit", async () => {
  const { along, queue } = newInbox();
  for (const event of people(5)) await queue.add("event", event);
  expect(await along.take("me", { ...LIMITS, jobs: 2 })).toHaveLength(2);
  expect(await along.take("me", { ...LIMITS, bytes: 1 })).toHaveLength(1);
  expect(await along.take("me", LIMITS)).toHaveLength(2);
});

test("a job that is larger than what fits is taken alone, in its turn", async () => {
  const { along, queue } = newInbox();
  for (const code of ["a", "b"]) await queue.add("event", personEvent(code));
  await queue.add("event", personEvent("large", { firstName: "x".repeat(LIMITS.bytes) }));
  await queue.add("event", personEvent("c"));
  const take = async () => subjectsOf(await along.take("me", LIMITS));
  expect([await take(), await take(), await take()]).toEqual([["a", "b"], ["large"], ["c"]]);
});

test("a job that another client wants to follow, by deduplication, is followed", async () => {
  const { along, queue } = newInbox();
  const deduplication = { id: "one", keepLastIfActive: true };
  await queue.add("event", personEvent("a"), { deduplication });
  const jobs = await along.take("me", LIMITS);
  await queue.add("event", personEvent("a2"), { deduplication });
  expect(await queue.getJobCounts("wait", "active")).toEqual({ wait: 0, active: 1 });
  await along.end(jobs, "me");
  expect(await queue.getJobCounts("wait", "active")).toEqual({ wait: 1, active: 0 });
  expect(subjectsOf(await along.take("me", LIMITS))).toEqual(["a2"]);
  expect(await queue.getCompletedCount()).toBe(0);
});

test("a deduplication that is for a time outlasts its job", async () => {
  const { along, queue, redis } = newInbox();
  await queue.add("event", personEvent("a"), { deduplication: { id: "one", ttl: 60_000 } });
  await along.end(await along.take("me", LIMITS), "me");
  expect(await redis.exists(queue.toKey("de:one"))).toBe(1);
});

test("a job whose lock another worker has is not ended", async () => {
  const { along, queue, redis } = newInbox();
  for (const event of people(2)) await queue.add("event", event);
  const jobs = await along.take("me", LIMITS);
  const [first] = jobs;
  await redis.set(`${queue.toKey(first?.id ?? "")}:lock`, "another worker");
  await expect(along.end(jobs, "me")).rejects.toThrow("Lock mismatch");
  expect(await queue.getJobCounts("wait", "active")).toEqual({ wait: 0, active: 1 });
  expect(await redis.exists(queue.toKey(first?.id ?? ""))).toBe(1);
});

test("what a process that died had taken along is accepted by another one", async () => {
  const runtime = newRuntime();
  const { config, inbox, keys, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(people(30).map((data) => ({ name: "event", data })));
  const along = new AlongJobs(redis, inbox.queue);
  expect(await along.take("dead", { ...LIMITS, lockMs: 1 })).toHaveLength(30);
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  await waitFor(async () => (await redis.zcard(keys.unsynced("live"))) === 30, {
    deadlineMs: 30_000,
    what: "all are staged",
  });
  await waitFor(async () => (await queue.getJobCountByTypes()) === 0, { what: "all have ended" });
});

test("a flood is taken along, and its locks are renewed while its mapping is slow", async () => {
  const lockMs = 10_000;
  let release = () => {};
  const slow = new Promise<void>((resolve) => (release = resolve));
  const runtime = newRuntime(
    {},
    {
      ...businessRelationMapping,
      async map(...args) {
        await slow;
        return businessRelationMapping.map(...args);
      },
    },
  );
  const { config, keys, metrics, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(people(60).map((data) => ({ name: "event", data })));
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  await waitFor(async () => (await queue.getActiveCount()) > 24, { what: "some are taken along" });
  // The newest one was taken along.
  const [id = ""] = await redis.lrange(queue.toKey("active"), 0, 0);
  const ttl = () => redis.pttl(`${queue.toKey(id)}:lock`);
  await waitFor(grows(ttl), { deadlineMs: lockMs, what: "it is renewed" });
  release();
  await waitFor(async () => (await redis.zcard(keys.unsynced("live"))) === 60, { what: "staged" });
  await waitFor(async () => (await queue.getJobCountByTypes()) === 0, { what: "all have ended" });
  expect((await metrics.stalled.get()).values[0]?.value).toBe(0);
});
