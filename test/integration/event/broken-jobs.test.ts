/** Jobs that a foreign BullMQ client, or a hand in Redis, has written wrongly. */
import { Queue } from "bullmq";
import { expect, inject, it, onTestFinished } from "vitest";
import type { StoredDeadLetter } from "../../../src/core/state/dead-letters.ts";
import { startIntake } from "../../../workers/intake.ts";
import { INBOX_QUEUE } from "../../../src/core/event/inbox.ts";
import { rejectStuckJobs } from "../../../workers/reject-event.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { watchCommands } from "../../support/watch-commands.ts";
import { waitFor } from "../../support/wait-for.ts";

/** What a field of a job can hold that BullMQ reads as a number, as JSON or as the name of a job. */
const WRONG = ["abc", "[", "{}", "-1", "1e400", "x::::1", "\u0000"];

const BROKEN: readonly (readonly [field: string, value: string | undefined])[] = [
  ...["abc", "", "-1", "NaN", "1e300", "9".repeat(30), "Infinity", undefined].map(
    (value) => ["timestamp", value] as const,
  ),
  ...[
    '"text"',
    "not json",
    "[]",
    "null",
    "5",
    '{"attempts":-1}',
    '{"attempts":1e300,"backoff":{"type":"zzz"}}',
    '{"delay":"x"}',
    '{"de":5}',
    '{"removeOnComplete":"x"}',
    '{"removeOnComplete":{"age":86400}}',
    '{"removeOnComplete":{"age":"x"}}',
    '{"removeOnComplete":{"count":-1}}',
    '{"removeOnFail":{"age":{}}}',
    '{"tm":"{"}',
    '{"repeat":5}',
    '{"parent":5}',
    '{"__proto__":{"x":1}}',
    `{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`,
    undefined,
  ].map((value) => ["opts", value] as const),
  ..."progress failedReason stacktrace returnvalue deid priority delay"
    .split(" ")
    .flatMap((field) => WRONG.map((value) => [field, value] as const)),
  ...[undefined, "", "not json", "null", '"x"', '{"redrive":"x"}', '{"sealed":"x"}'].map(
    (value) => ["data", value] as const,
  ),
  ["data", "[".repeat(100_000)],
  ["name", undefined],
  ["name", "redrive"],
];

it("every broken job ends: its event is staged, or a dead letter names the fault", async () => {
  const runtime = newRuntime();
  const { config, deadLetters, inbox, keys, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(
    BROKEN.map((_, n) => ({
      name: "event",
      data: personEvent(`r${n}`, {}, { id: `b${n}` }),
      opts: { jobId: `b${n}`, deduplication: { id: `b${n}` } },
    })),
  );
  for (const [n, [field, value]] of BROKEN.entries()) {
    const key = queue.toKey(`b${n}`);
    if (value === undefined) await redis.hdel(key, field);
    else await redis.hset(key, field, value);
  }
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const left = () => redis.keys(`${queue.toKey("")}{b,de:b}[0-9]*`);
  await waitFor(
    async () => {
      await rejectStuckJobs(runtime);
      const counts = await inbox.queue.getJobCounts();
      return Object.values(counts).every((count) => count === 0) && (await left()).length === 0;
    },
    { what: "no job and nothing of one is left" },
  );
  const letters: StoredDeadLetter[] = [];
  for await (const letter of deadLetters.all()) letters.push(letter);
  for (const [n, [field, value]] of BROKEN.entries()) {
    if (field === "data") continue;
    const staged = await redis.exists(keys.staged(`r${n}`));
    const mine = letters.filter(({ event }) => event?.includes(`"b${n}"`));
    expect(staged + mine.length, `${field} ${value} is staged, or a dead letter`).toBe(1);
    for (const { problems, reason } of mine) {
      const isNamed = reason === "bad_event" && problems?.[0]?.rule.startsWith("must be a job ");
      expect(isNamed || reason === "defect", JSON.stringify({ field, value, reason })).toBe(true);
    }
  }
  const ofTimestamps = letters.filter(({ problems }) => problems?.[0]?.rule.includes("timestamp"));
  expect(ofTimestamps).toHaveLength(BROKEN.filter(([field]) => field === "timestamp").length);
  // What names no source is none, which would be silent a day later.
  expect(await redis.hkeys(keys.sources)).toEqual(["/crm/test"]);
  // Those that are the same envelope without an id share one letter.
  expect(letters.some(({ event }) => event === "not json")).toBe(true);
});

it("a job that its sender wants removed becomes a dead letter, too, when its workers died", async () => {
  const runtime = newRuntime();
  const { config, deadLetters, inbox, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  const removals = [undefined, true, { count: 1 }, { age: 1 }];
  for (const [n, removeOnFail] of removals.entries()) {
    const job = await queue.add("event", personEvent(`r${n}`), {
      // Its sender's clock is ahead.
      timestamp: Date.now() + 86_400_000,
      ...(removeOnFail !== undefined && { removeOnFail }),
    });
    await redis.hset(queue.toKey(job.id ?? ""), "stc", 6, "defa", "its workers died");
  }
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const isEmpty = async () => {
    await rejectStuckJobs(runtime);
    return Object.values(await inbox.queue.getJobCounts()).every((count) => count === 0);
  };
  await waitFor(isEmpty, { what: "no job is left" });
  const letters: StoredDeadLetter[] = [];
  for await (const letter of deadLetters.all()) letters.push(letter);
  expect(letters.map(({ reason }) => reason)).toEqual(removals.map(() => "defect"));
  for (const { arrival } of letters) expect(arrival?.at).toBeLessThanOrEqual(Date.now());
});

it("a job that BullMQ has given up, and cannot let fail, becomes a dead letter", async () => {
  const runtime = newRuntime();
  const { deadLetters, inbox, redis } = runtime;
  for (const [id, stalled] of Object.entries({ given_up: 7, once: 1 })) {
    const data = JSON.stringify(personEvent(id));
    const timestamp = Date.now();
    await redis.hset(inbox.queue.toKey(id), { name: "event", opts: "{}", data, timestamp });
    await redis.hset(inbox.queue.toKey(id), "stc", stalled);
    await redis.lpush(inbox.queue.toKey("active"), id);
    await redis.set(`${inbox.queue.toKey(id)}:lock`, "of its worker");
  }
  await rejectStuckJobs(runtime);
  expect(await deadLetters.count()).toBe(1);
  expect(await inbox.queue.getRanges(["active"])).toEqual(["once"]);
});

it("jobs whose workers died are read one after the other: each may hold megabytes", async () => {
  const runtime = newRuntime();
  const { deadLetters, inbox, redis } = runtime;
  for (const id of ["f0", "f1", "f2"]) {
    const data = JSON.stringify(personEvent(id));
    await redis.hset(inbox.queue.toKey(id), { name: "event", opts: "{}", data });
    await redis.zadd(inbox.queue.toKey("failed"), Date.now(), id);
  }
  const seen: string[] = [];
  using _ = await watchCommands(inject("redisUrl"), ({ name, text }) => {
    const [, id, lock] = /:(f\d)(:lock)?"/.exec(text) ?? [];
    if (lock !== undefined) seen.push(`ended ${id}`);
    else if (name === "hget" && id !== undefined) seen.push(`read ${id}`);
  });
  await rejectStuckJobs(runtime);
  expect(await deadLetters.count()).toBe(3);
  await waitFor(() => seen.length === 6, { what: "all commands are seen" });
  expect(seen).toEqual(["f0", "f1", "f2"].flatMap((id) => [`read ${id}`, `ended ${id}`]));
});

it("a number with more digits than JavaScript's keeps all of them", async () => {
  const runtime = newRuntime();
  const { config, inbox, redis, staged } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  const long = "9007199254740993123";
  for (const n of [1, 2]) {
    const id = `l${n}`;
    const event = personEvent(id, { taxIdentificationNumber: "LONG" });
    await queue.add("event", event, { jobId: id });
    // As another language writes it.
    const text = JSON.stringify(event).replace('"LONG"', long);
    await redis.hset(queue.toKey(id), "data", text);
  }
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  await waitFor(async () => (await inbox.queue.getJobCountByTypes("wait", "active")) === 0, {
    what: "both are staged",
  });
  for (const n of [1, 2]) {
    const taken = await staged.take(`l${n}`, "token", 1000);
    expect(taken.kind === "taken" && taken.state.payload).toContain(`"${long}"`);
  }
});
