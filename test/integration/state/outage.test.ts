import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Outage } from "../../../src/state/outage.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
beforeEach(() => {
  keys = keysOf(uniquePrefix());
});

/** Five failures in a row; the fifth begins the outage. */
async function begin(outage: Outage): Promise<void> {
  for (let failure = 1; failure <= 5; failure += 1) {
    expect(await outage.failed("timeout")).toBe(failure === 5);
  }
}

const endPause = () => redis.hset(keys.outage, "until", 1);

it("lets one process try, once per pause", async () => {
  const [first, second] = [new Outage(redis, keys), new Outage(redis, keys)];
  expect(await first.waitMs()).toBe(0);
  await begin(first);
  expect(await first.waitMs()).toBeGreaterThan(0);
  await endPause();
  expect(await second.waitMs()).toBe(0);
  expect(await first.waitMs()).toBeGreaterThan(0);
});

it("ends with the first usable reply, even of a process that never failed itself", async () => {
  const healthy = new Outage(redis, keys);
  await healthy.succeeded();
  await begin(new Outage(redis, keys));
  expect(await healthy.current()).toMatchObject({ reason: "timeout" });
  await endPause();
  expect(await healthy.waitMs()).toBe(0);
  expect(await healthy.succeeded()).toBe(true);
  expect(await healthy.current()).toBeUndefined();
  expect(await healthy.waitMs()).toBe(0);
});
