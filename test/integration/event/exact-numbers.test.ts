/** Numbers of more than 15 digits keep all of them, whatever happens to their event: a rounded id is another client. */
import { randomBytes } from "node:crypto";
import { Queue } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { INBOX_QUEUE } from "../../../src/core/event/inbox.ts";
import { TraceFinder, eventNames } from "../../../src/people/forget/find-traces.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import type { StoredDeadLetter } from "../../../src/core/state/dead-letters.ts";
import { startIntake } from "../../../workers/intake.ts";
import { rejectStuckJobs } from "../../../workers/reject-event.ts";
import type { Parts } from "../../../workers/parts.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Ids as Zoho has them. JSON.parse makes the second one of the first. */
const IDS = ["9007199254740993", "9007199254740992"];

/** Makes the crmCode of a record of its id, which may be a number. */
const BY_ID: Mapping = {
  ...businessRelationMapping,
  map(context, record, lists, options) {
    const { id, ...rest } = record ?? {};
    const crmCode = String(id);
    return businessRelationMapping.map(context, { ...rest, crmCode }, lists, options);
  },
};

function start(env: Readonly<Record<string, string>> = {}) {
  const runtime = newRuntime(env, BY_ID);
  const { config, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  /** Adds an event as a client in another language writes it. @returns the id of its job. */
  async function add(id: string, fields: Record<string, unknown> = {}): Promise<string> {
    const event = personEvent(
      "",
      { ...fields, id: "ID" },
      { subject: `contact/${id.slice(0, 3)}` },
    );
    const job = await queue.add("event", event, { jobId: `job-${id}` });
    const text = JSON.stringify(event).replace('"ID"', id);
    await redis.hset(queue.toKey(job.id ?? ""), "data", text);
    return job.id ?? "";
  }
  return { runtime, queue, add };
}

function runIntake(runtime: Parts): void {
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
}

async function promoteDelayed({ inbox }: Parts): Promise<void> {
  await waitFor(async () => (await inbox.queue.getDelayedCount()) === IDS.length, {
    what: "both events wait for another try",
  });
  for (const job of await inbox.queue.getDelayed()) await job.promote();
}

const areStaged = (runtime: Parts) =>
  waitFor(async () => (await runtime.staged.waiting(IDS)).every((one) => one !== undefined), {
    what: "each id is staged as a record of its own",
  });

test.for([
  ["with", { STATE_KEY: randomBytes(32).toString("base64") }],
  ["without", {}],
] as const)("%s STATE_KEY, events that wait for the value lists", async ([, env]) => {
  const { runtime, add } = start(env);
  for (const id of IDS) await add(id, { service: ["family_office"] });
  runIntake(runtime);
  await waitFor(async () => (await runtime.inbox.queue.getDelayedCount()) === IDS.length, {
    what: "both events wait",
  });
  await runtime.tenantLists.store({ fields: {} }, Date.now());
  await promoteDelayed(runtime);
  await areStaged(runtime);
});

test("with STATE_KEY, events that wait because Redis refuses a command", async () => {
  const { runtime, add } = start({ STATE_KEY: randomBytes(32).toString("base64") });
  const { keys, redis } = runtime;
  for (const id of IDS) await redis.set(keys.staged(id), "no hash");
  for (const id of IDS) await add(id);
  runIntake(runtime);
  await waitFor(async () => (await runtime.inbox.queue.getDelayedCount()) === IDS.length, {
    what: "both events wait",
  });
  for (const id of IDS) await redis.del(keys.staged(id));
  await promoteDelayed(runtime);
  await areStaged(runtime);
});

test("a job whose workers died again and again: its dead letter has the number", async () => {
  const { runtime, queue, add } = start();
  for (const id of IDS) {
    const jobId = await add(id);
    await runtime.redis.lrem(queue.toKey("wait"), 1, jobId);
    await runtime.redis.zadd(queue.toKey("failed"), Date.now(), jobId);
  }
  await rejectStuckJobs(runtime);
  const letters: StoredDeadLetter[] = [];
  for await (const letter of runtime.deadLetters.all()) letters.push(letter);
  const found = IDS.filter((id) => letters.some(({ event }) => event.includes(`"${id}"`)));
  expect(found).toEqual(IDS);
});

test("a client is found in the inbox by its own id, and not by another one's", async () => {
  const { runtime, add } = start();
  await add(IDS[0] ?? "");
  const countsOf = async (id: string) =>
    (await new TraceFinder(runtime, eventNames(BY_ID, new Map()), [id]).find()).counts;
  expect(await countsOf(IDS[0] ?? "")).toEqual({ inbox: 1 });
  expect(await countsOf(IDS[1] ?? "")).toEqual({});
});
