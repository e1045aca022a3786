import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { keysOf } from "../../../src/state/keys.ts";
import { RedisClock } from "../../../src/state/redis-clock.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let clock: RedisClock;

beforeEach(async () => {
  clock = new RedisClock(redis, keysOf(uniquePrefix()));
  await clock.measure();
});

const after = (at: number) => waitFor(() => clock.now() > at + 2, { what: "a later millisecond" });

it("tells Redis' time", async () => {
  const [seconds, micros] = await redis.time();
  const told = clock.now();
  expect(Math.abs(told - (Number(seconds) * 1000 + Number(micros) / 1000))).toBeLessThan(1000);
});

it("times of arrival grow with the events' numbers, in whatever order workers ask", async () => {
  const tenth = await clock.arrival(10);
  await after(tenth);
  const thirtieth = await clock.arrival(30);
  expect(thirtieth).toBeGreaterThan(tenth);
  await after(thirtieth);
  // Late: an event in between, and one before all.
  expect(await clock.arrival(20)).toBe(thirtieth);
  expect(await clock.arrival(5)).toBe(tenth);
  // Asked again, after a crash.
  expect(await clock.arrival(10)).toBe(tenth);
  expect(await clock.arrival(31)).toBeGreaterThan(thirtieth);
});
