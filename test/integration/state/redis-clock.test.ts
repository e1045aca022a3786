import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { keysOf } from "../../../src/core/state/keys.ts";
import { nowReading, readOne } from "../../../src/base/redis-reading.ts";
import { clockStepReading, RedisClock } from "../../../src/core/state/redis-clock.ts";
import { steppingRedis } from "../../support/shifted-clock.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let clock: RedisClock;
let countKey: string;

beforeEach(async () => {
  const prefix = uniquePrefix();
  clock = new RedisClock(redis, keysOf(prefix));
  countKey = `${prefix}:crm-events:id`;
  await redis.set(countKey, 1000);
  await clock.measure();
});

const after = (at: number) => waitFor(() => clock.now() > at + 2, { what: "a later millisecond" });

it("tells Redis' time", async () => {
  const [seconds, micros] = await redis.time();
  const told = clock.now();
  expect(Math.abs(told - (Number(seconds) * 1000 + Number(micros) / 1000))).toBeLessThan(60_000);
});

it("times of arrival grow with the events' numbers, in whatever order workers ask", async () => {
  const tenth = await clock.arrival(10, countKey);
  await after(tenth);
  const thirtieth = await clock.arrival(30, countKey);
  expect(thirtieth).toBeGreaterThan(tenth);
  await after(thirtieth);
  // Late: an event in between, and one before all.
  expect(await clock.arrival(20, countKey)).toBe(thirtieth);
  expect(await clock.arrival(5, countKey)).toBe(tenth);
  // Asked again, after a crash.
  expect(await clock.arrival(10, countKey)).toBe(tenth);
  expect(await clock.arrival(31, countKey)).toBeGreaterThan(thirtieth);
});

it("an event without a time is not older than those before it, whatever its sender's clock says", async () => {
  const now = clock.now();
  const first = await clock.arrival(10, countKey, now - 1000);
  expect(first).toBe(now - 1000);
  expect(await clock.arrival(11, countKey, now - 1005)).toBe(first);
  expect(await clock.arrival(12, countKey, now - 172_800_000)).toBe(first);
  // A sender's clock that is ahead is not believed.
  const last = await clock.arrival(20, countKey, now + 600_000);
  expect(last).toBeLessThan(now + 60_000);
  // One that was taken late keeps its time between its neighbours.
  expect(await clock.arrival(15, countKey, now - 400)).toBe(now - 400);
  expect(await clock.arrival(14, countKey, now - 300)).toBe(now - 400);
  expect(await clock.arrival(16, countKey, now - 500)).toBe(now - 400);
});

it("a number that no event has yet holds back no later event", async () => {
  await redis.set(countKey, 10);
  const first = await clock.arrival(4_711_000, countKey);
  await after(first);
  await redis.set(countKey, 11);
  expect(await clock.arrival(11, countKey)).toBeGreaterThan(first);
});

it("times of a queue that was emptied hold back no event of the new one", async () => {
  const last = await clock.arrival(900, countKey);
  await after(last);
  await redis.set(countKey, 1);
  expect(await clock.arrival(1, countKey)).toBeGreaterThan(last);
});

it("a step of Redis' clock is told once, and every process knows Redis' time afterwards", async (context) => {
  await using stepping = await steppingRedis(context);
  const keys = keysOf(uniquePrefix());
  const [first, second] = [
    new RedisClock(stepping.client, keys),
    new RedisClock(stepping.client, keys),
  ];
  for (const one of [first, second]) expect(await one.measure()).toBe(0);
  for (const [ms, step] of [
    [300_000, 300_000],
    [-300_000, -600_000],
  ] as const) {
    stepping.setClock(ms);
    for (const one of [first, second]) {
      expect(Math.abs((await one.measure()) - step)).toBeLessThan(60_000);
      expect(await one.measure()).toBe(0);
      expect(Math.abs(one.now() - (await readOne(stepping.client, nowReading)))).toBeLessThan(
        60_000,
      );
    }
    const told = await readOne(stepping.client, clockStepReading(keys));
    expect(Math.abs((told?.stepMs ?? 0) - step)).toBeLessThan(60_000);
    expect(Math.abs((told?.at ?? 0) - first.now())).toBeLessThan(60_000);
  }
});

it("a process that is too busy for the first answer does not take that for a step", async () => {
  const busy = new RedisClock(redis, keysOf(uniquePrefix()));
  const measured = busy.measure();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000);
  expect(await measured).toBe(0);
  expect(await busy.measure()).toBe(0);
});

it("Redis' clock is set back: no event counts as earlier than those before, also after a restart", async (context) => {
  await using stepping = await steppingRedis(context);
  const keys = keysOf(uniquePrefix());
  await stepping.client.set(countKey, 1000);
  const before = new RedisClock(stepping.client, keys);
  await before.measure();
  const last = before.now();
  stepping.setClock(-600_000);
  const restarted = new RedisClock(stepping.client, keys);
  expect(await restarted.measure()).toBeLessThan(-590_000);
  expect(await before.measure()).toBeLessThan(-590_000);
  for (const one of [before, restarted]) {
    expect(one.now()).toBeLessThan(last - 590_000);
    expect(one.latest()).toBeGreaterThan(last);
    expect(await one.arrival(10, countKey)).toBeGreaterThan(last);
  }
});

it("Redis' clock was ahead and is put right: events arrive by the right time", async (context) => {
  await using stepping = await steppingRedis(context);
  await stepping.client.set(countKey, 1000);
  stepping.setClock(86_400_000);
  const clock = new RedisClock(stepping.client, keysOf(uniquePrefix()));
  await clock.measure();
  stepping.setClock(0);
  expect(await clock.measure()).toBeLessThan(-86_000_000);
  expect(Math.abs(clock.latest() - Date.now())).toBeLessThan(60_000);
  expect(Math.abs((await clock.arrival(10, countKey)) - Date.now())).toBeLessThan(60_000);
});
