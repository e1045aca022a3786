/** Jobs that another client has put into the queue of fetches, and thin events that somebody has changed. */
import { Queue } from "bullmq";
import { expect, it, onTestFinished } from "vitest";
import { eraseTraces } from "../../../src/people/forget/erase-traces.ts";
import { sealedIn, SEALED_FOR } from "../../../src/core/event/inbox.ts";
import { TraceFinder, eventNames } from "../../../src/people/forget/find-traces.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { FETCH_QUEUE } from "../../../src/core/state/thin-events.ts";
import { startFetch } from "../../../workers/fetch.ts";
import { startChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

/** As they lie in Redis. */
const DATA = [
  "null",
  '"text"',
  "5",
  "[]",
  "{}",
  '{"crm":5,"subject":{}}',
  '{"crm":"hubspot"}',
  '{"crm":"none","subject":"contact/1"}',
  "not json",
  "[".repeat(100_000),
];

/** Of a key that this process does not have. */
const otherSealing = new Sealing([Buffer.alloc(32, 6)]);

it("a job of another client in the queue of fetches ends, and keeps no person from being erased", async () => {
  const runtime = newRuntime();
  const { config, mapping, redis, thinEvents } = runtime;
  const queue = new Queue(FETCH_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(DATA.map((_, n) => ({ name: "fetch", data: {}, opts: { jobId: `f${n}` } })));
  for (const [n, data] of DATA.entries()) await redis.hset(queue.toKey(`f${n}`), "data", data);
  const finder = new TraceFinder(runtime, eventNames(mapping, new Map()), ["contact/7"]);
  const fetch = startFetch(runtime);
  onTestFinished(() => fetch.close());
  const isActive = async () => (await thinEvents.queue.getActiveCount()) > 0;
  await waitFor(isActive, { what: "BullMQ has taken what no worker can read" });
  expect((await finder.find()).counts).toEqual({});
  await eraseTraces(runtime, finder, await finder.find(), { withinMs: 5000, onWait() {} });
  startChore(runtime, "sweep");
  await waitFor(async () => (await redis.keys(queue.toKey("f*"))).length === 0, {
    what: "nothing of the jobs is left",
  });
});

it("a job in the inbox that no worker can read keeps no person from being erased, and no value from being sealed", async () => {
  const runtime = newRuntime({ STATE_KEY: Buffer.alloc(32, 5).toString("base64") });
  const { inbox, mapping, redis, resealing } = runtime;
  for (const id of ["1", "2"]) await inbox.queue.add("event", personEvent(id), { jobId: `b${id}` });
  await redis.hset(inbox.queue.toKey("b1"), "data", "not json");
  const finder = new TraceFinder(runtime, eventNames(mapping, new Map()), ["2"]);
  expect((await finder.find()).counts).toEqual({ inbox: 1 });
  await inbox.queue.add("event", { sealed: await otherSealing.seal("{}", SEALED_FOR) });
  const jobs = [{ queue: inbox.queue, about: SEALED_FOR, sealedIn }];
  const { found } = await resealing.pass(jobs, async () => {});
  expect(found).toBe(1);
});
