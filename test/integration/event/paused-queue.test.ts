/** Nothing that was accepted while somebody had paused the inbox is lost when it is resumed. */
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { Inbox, INBOX_QUEUE } from "../../../src/event/inbox.ts";
import { pausedJobsKeeper } from "../../../src/event/paused-jobs.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { people, personEvent } from "../../support/person-event.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

function newInbox() {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const prefix = uniquePrefix();
  const inbox = new Inbox(redis, prefix);
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix });
  onTestFinished(async () => {
    await Promise.all([inbox.close(), queue.close()]);
    redis.disconnect();
  });
  const [meta, wait, paused] = ["meta", "wait", "paused"].map((name) => queue.toKey(name)) as [
    string,
    string,
    string,
  ];
  return { inbox, keepPaused: pausedJobsKeeper(redis, queue), meta, paused, queue, redis, wait };
}
type Parts = ReturnType<typeof newInbox>;
type Lists = Pick<Parts, "meta" | "paused" | "redis" | "wait">;

/** What `pause` and `resume` of BullMQ 5 do to the lists (its pause-7.lua). */
const BY_5 = {
  pause: async ({ meta, paused, redis, wait }: Lists) => {
    if ((await redis.exists(wait)) === 1) await redis.rename(wait, paused);
    await redis.hset(meta, "paused", 1);
  },
  resume: async ({ meta, paused, redis, wait }: Lists) => {
    if ((await redis.exists(paused)) === 1) await redis.rename(paused, wait);
    await redis.hdel(meta, "paused");
  },
};
const BY_6 = {
  pause: ({ queue }: Parts) => queue.pause(),
  resume: ({ queue }: Parts) => queue.resume(),
};

/** Oldest first. */
async function waitingIn({ queue }: Parts): Promise<string[]> {
  const jobs = await queue.getJobs(["waiting"], 0, -1, true);
  return jobs.map(({ data }) => (data as { subject: string }).subject.slice("contact/".length));
}

test.for([
  ["5", "5", BY_5.pause, BY_5.resume],
  ["5", "6", BY_5.pause, BY_6.resume],
  ["6", "5", BY_6.pause, BY_5.resume],
  ["6", "6", BY_6.pause, BY_6.resume],
] as const)("paused by BullMQ %s, resumed by %s", async ([, , pause, resume]) => {
  const parts = newInbox();
  const { inbox, keepPaused, paused, queue, redis } = parts;
  await inbox.push(people(2, "before"));
  await pause(parts);
  const during = people(2, "during");
  expect(await inbox.push(during)).toEqual({ accepted: 2, duplicates: 0 });
  // BullMQ 5 adds to the other list.
  const { id } = await queue.add("event", personEvent("by5"));
  await redis.lrem(queue.toKey("wait"), 1, id ?? "");
  await redis.lpush(paused, id ?? "");
  await queue.add("event", personEvent("by6"));
  await keepPaused();
  expect(await inbox.push(during)).toEqual({ accepted: 0, duplicates: 2 });
  await resume(parts);
  expect(await waitingIn(parts)).toEqual([
    "before0",
    "before1",
    "during0",
    "during1",
    "by5",
    "by6",
  ]);
  await inbox.push(people(1, "after"));
  expect(await waitingIn(parts)).toContain("after0");
});

test("a record to fetch that is put while BullMQ 5 has paused the queue is not lost", async () => {
  const { redis, thinEvents } = newRuntime();
  const { queue } = thinEvents;
  const lists = {
    redis,
    meta: queue.toKey("meta"),
    wait: queue.toKey("wait"),
    paused: queue.toKey("paused"),
  };
  const put = (subject: string) => thinEvents.put({ crm: "hubspot", subject }, "1", "{}", "live");
  await put("contact/1");
  await BY_5.pause(lists);
  await put("contact/2");
  await BY_5.resume(lists);
  expect((await queue.getWaiting()).map(({ data }) => data.subject)).toEqual([
    "contact/1",
    "contact/2",
  ]);
});
