/** Writes that were answered and are read once more: which ones, and where they stand. */
import { Redis } from "ioredis";
import { afterAll, expect, inject, test } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { ServiceDenial } from "../../../src/core/state/denial.ts";
import { Outage } from "../../../src/core/state/outage.ts";
import { rowAt, stateOf, storesOf, takeFrom } from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const HOUR_MS = 3_600_000;

test("one write an hour is chosen, and the first one after a start, a denial and an outage", async () => {
  const { keys } = storesOf(redis);
  const one = new Outage(redis, keys, { hourMs: HOUR_MS });
  const chosen = () => one.isToBeChecked();
  expect([await chosen(), await chosen()]).toEqual([true, false]);
  expect(await redis.pttl(keys.spotCheck)).toBeGreaterThan(HOUR_MS - 60_000);
  await redis.pexpire(keys.spotCheck, 1);
  await expect.poll(chosen).toBe(true);

  const other = new Outage(redis, keys, { hourMs: HOUR_MS });
  expect(await other.isToBeChecked()).toBe(true);
  expect([await other.isToBeChecked(), await chosen()]).toEqual([false, false]);

  const denial = new ServiceDenial(redis, keys, 60_000);
  await denial.begin("token", "");
  expect(await chosen()).toBe(false);
  await denial.end();
  expect([await chosen(), await chosen()]).toEqual([true, false]);

  const outage = new Outage(redis, keys);
  for (let failure = 0; failure < 5; failure += 1) await outage.failed("timeout", true);
  expect(await chosen()).toBe(false);
  await outage.answered(true);
  expect([await chosen(), await chosen()]).toEqual([true, false]);
});

test("the change stands in its line again, and is no change that waits", async () => {
  const { keys, line, staged } = storesOf(redis);
  await staged.stage(stateOf("1", "1"));
  const confirm = { why: "stored", since: Date.now() } as const;
  const row = rowAt("1", "f-1");
  await staged.settle(await takeFrom({ staged }, "1"), { row, finished: true, confirm });
  const { later, sent, unsynced } = await readOne(redis, line.counts());
  expect({ later, sent, unsynced }).toEqual({ later: 0, sent: 1, unsynced: { live: 0, bulk: 0 } });
  expect(Number(await redis.zscore(keys.later, "1"))).toBeGreaterThan(Date.now() + 60_000);
  expect(await line.unsynced(["1"])).toEqual([]);
});
