/** When dead letters expire, by a clock that the test sets. */
import type { Redis } from "ioredis";
import { afterAll, beforeEach, expect, it } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { DeadLetterExpiry } from "../../../src/core/state/dead-letter-expiry.ts";
import type { DeadLetters } from "../../../src/core/state/dead-letters.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { steppingRedis, type SteppingRedis } from "../../support/shifted-clock.ts";
import { storesOf } from "../../support/stores-of.ts";

let stepping: SteppingRedis | undefined;
let redis: Redis;
let now = 0;
afterAll(() => stepping?.[Symbol.asyncDispose]());

function setNow(time: number): void {
  now = time;
  stepping?.stopClock(now);
}

const DAY_MS = 86_400_000;

let keys: Keys;
let dead: DeadLetters;
let expiry: DeadLetterExpiry;

beforeEach(async (context) => {
  stepping ??= await steppingRedis(context);
  redis = stepping.client;
  setNow(Date.parse("2026-11-21T00:00:00Z"));
  ({ keys, deadLetters: dead } = storesOf(redis));
  expiry = new DeadLetterExpiry(redis, keys, 30);
  await expiry.expire();
});

const store = (crmCode: string, event = "{}", order = "1") =>
  dead.store(
    createDeadLetter({ crmCode }, { reason: "invalid", problems: [], event, order, at: now }),
  );

/** Lets time pass while a process runs. @returns how many letters were deleted meanwhile. */
async function pass(days: number): Promise<number> {
  let deleted = 0;
  for (let step = 0; step < days * 4; step += 1) {
    setNow(now + DAY_MS / 4);
    deleted += (await expiry.expire()).expired;
  }
  return deleted;
}

it("a letter is announced three days before its end, then it is deleted and counted out", async () => {
  await store("a");
  await pass(20);
  await store("b");
  expect(await pass(6.5)).toBe(0);
  expect(await readOne(redis, expiry.reading())).toMatchObject({ soon: 0, firstMs: 3.5 * DAY_MS });
  expect(await pass(0.5)).toBe(0);
  expect(await readOne(redis, expiry.reading())).toEqual({
    soon: 1,
    withinMs: 3 * DAY_MS,
    firstMs: 3 * DAY_MS,
  });
  expect((await expiry.left(["c:b"])).get("c:b")).toBe(23 * DAY_MS);
  expect(await pass(3)).toBe(1);
  expect(await dead.find("c:a")).toBeUndefined();
  expect(await dead.find("c:b")).toBeDefined();
  expect(await readOne(redis, dead.reasons())).toEqual({ invalid: 1 });
});

it("a letter that is stored again is as new; one that was dropped leaves no age", async () => {
  await store("a");
  await store("b");
  await pass(29);
  await store("a", "{}", "2");
  await dead.drop("c:b");
  expect(await redis.zcard(keys.deadAges)).toBe(1);
  expect(await pass(29)).toBe(0);
  expect(await pass(1)).toBe(1);
});

it("a step of the clock by a year, either way, makes no letter a year older", async () => {
  await store("a");
  await pass(2);
  setNow(now + 365 * DAY_MS);
  expect((await expiry.expire()).expired).toBe(0);
  expect((await expiry.left(["c:a"])).get("c:a")).toBe(27 * DAY_MS);
  setNow(now - 365 * DAY_MS);
  expect((await expiry.expire()).expired).toBe(0);
  expect(await pass(26)).toBe(0);
  expect(await pass(1)).toBe(1);
});

it("while no process runs for weeks, one day counts", async () => {
  await store("a");
  setNow(now + 60 * DAY_MS);
  expect((await expiry.expire()).expired).toBe(0);
  expect(await pass(28)).toBe(0);
  expect(await pass(1)).toBe(1);
});

it("many letters, and large ones, are deleted in small batches", async () => {
  await Promise.all(Array.from({ length: 250 }, (_, n) => store(`s${n}`)));
  await store("large-1", JSON.stringify("x".repeat(900_000)));
  await store("large-2", JSON.stringify("x".repeat(900_000)));
  await redis.hincrby(keys.deadTime, "counted", 30 * DAY_MS);
  const batches = [];
  for (let more = true; more;) {
    const batch = await expiry.expire();
    batches.push(batch.expired);
    more = batch.more;
  }
  expect(batches).toEqual([1, 1, 100, 100, 50]);
  expect(await dead.count()).toBe(0);
  expect(await redis.exists(keys.deadAges, keys.deadMarks)).toBe(0);
});

it("without an expiry no letter is deleted, and its age counts on for a later setting", async () => {
  await store("a");
  const never = new DeadLetterExpiry(redis, keys, undefined);
  for (let day = 0; day < 40; day += 1) {
    setNow(now + DAY_MS);
    expect((await never.expire()).expired).toBe(0);
  }
  expect(await readOne(redis, never.reading())).toBeUndefined();
  expect([...(await never.left(["c:a"]))]).toEqual([]);
  expect((await expiry.expire()).expired).toBe(1);
});

it("two processes count the same time once", async () => {
  await store("a");
  const other = new DeadLetterExpiry(redis, keys, 30);
  for (let day = 0; day < 29; day += 1) {
    setNow(now + DAY_MS);
    await Promise.all([expiry.expire(), other.expire()]);
  }
  expect(await dead.find("c:a")).toBeDefined();
  expect(await pass(1)).toBe(1);
});
