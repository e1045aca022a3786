import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import type { Breaker } from "../../../src/core/sync/breaker.ts";
import { keysOf, type Keys } from "../../../src/core/state/keys.ts";
import { Outage } from "../../../src/core/state/outage.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
beforeEach(() => {
  keys = keysOf(uniquePrefix());
});

/** Five failures in a row; the fifth opens the breaker. */
async function begin(outage: Outage): Promise<void> {
  for (let failure = 1; failure <= 5; failure += 1) {
    const change = await outage.failed("timeout", true);
    expect(change?.after.open !== undefined).toBe(failure === 5);
  }
}

async function endPause(): Promise<void> {
  const breaker = JSON.parse((await redis.hget(keys.outage, "breaker")) ?? "") as Breaker;
  const open = { ...breaker.open, nextTryAt: 1 };
  await redis.hset(keys.outage, "breaker", JSON.stringify({ ...breaker, open }));
}

it("lets one of the processes try, once per pause", async () => {
  const outages = Array.from({ length: 5 }, () => new Outage(redis, keys, { tryMs: 30_000 }));
  const [first, second] = outages as [Outage, Outage];
  expect(await first.waitMs()).toBe(0);
  await begin(first);
  expect(await first.waitMs()).toBeGreaterThan(0);
  for (let round = 0; round < 5; round += 1) {
    await endPause();
    const waits = await Promise.all(outages.map((outage) => outage.waitMs()));
    expect(waits.filter((wait) => wait === 0)).toHaveLength(1);
  }
  // It was not made: there was nothing to send.
  await endPause();
  expect(await first.waitMs()).toBe(0);
  await second.notTried();
  expect(await second.waitMs()).toBeGreaterThan(25_000);
  await first.notTried();
  expect(await second.waitMs()).toBeLessThanOrEqual(1000);
});

it("failures of several processes at the same time are all counted", async () => {
  const outages = Array.from({ length: 5 }, () => new Outage(redis, keys));
  const changes = await Promise.all(outages.map((outage) => outage.failed("timeout", true)));
  expect(changes.filter((change) => change?.after.open !== undefined)).toHaveLength(1);
});

it("ends with the first usable reply, even of a process that never failed itself", async () => {
  const healthy = new Outage(redis, keys);
  await healthy.answered(true);
  await begin(new Outage(redis, keys));
  expect(await healthy.current()).toMatchObject({ reason: "timeout" });
  await endPause();
  expect(await healthy.waitMs()).toBe(0);
  const change = await healthy.answered(true);
  expect(change?.before.open).toBeDefined();
  expect(await healthy.answered(true)).toBeUndefined();
  expect(await healthy.current()).toBeUndefined();
  expect(await redis.exists(keys.outage)).toBe(0);
});

it("a usable reply of one process ends the row of another's failures", async () => {
  const [failing, healthy] = [new Outage(redis, keys), new Outage(redis, keys)];
  for (let n = 0; n < 12; n += 1) {
    await failing.failed("timeout", true);
    if (n % 3 > 0) continue;
    expect(await healthy.waitMs()).toBe(0);
    await healthy.answered(true);
  }
  expect(await failing.current()).toBeUndefined();
});

it.each(["stale_permit", "slept", "closed", "forbidden", "unconfirmed"])(
  "%s says nothing about the service",
  async (reason) => {
    const outage = new Outage(redis, keys);
    for (let n = 0; n < 9; n += 1) expect(await outage.failed(reason, true)).toBeUndefined();
    expect(await outage.waitMs()).toBe(0);
    expect(await outage.current()).toBeUndefined();
  },
);

it.each(["dns", "proxy"])("%s also pauses the process that fails, by itself", async (reason) => {
  const clock = { ms: 0 };
  const failing = new Outage(redis, keys, { now: () => clock.ms });
  const healthy = new Outage(redis, keys);
  for (let n = 1; n <= 5; n += 1) {
    expect(await failing.waitMs()).toBe(0);
    await failing.failed(reason, true);
    await healthy.waitMs();
    await healthy.answered(true);
  }
  expect(await healthy.waitMs()).toBe(0);
  expect(await failing.waitMs()).toBe(3000);
  for (let inFlight = 0; inFlight < 15; inFlight += 1) await failing.failed(reason, true);
  await healthy.waitMs();
  await healthy.answered(true);
  expect(await failing.waitMs()).toBe(3000);
  clock.ms = 3000;
  expect(await failing.waitMs()).toBe(0);
  await failing.answered(true);
  await failing.failed(reason, true);
  expect(await failing.waitMs()).toBe(0);
});
