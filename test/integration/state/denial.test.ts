import { Redis } from "ioredis";
import { afterAll, expect, inject, it } from "vitest";
import { ServiceDenial } from "../../../src/state/denial.ts";
import { keysOf } from "../../../src/state/keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

it("one probe is made per pause, however many records are refused, and by one process", async () => {
  const keys = keysOf(uniquePrefix());
  const [one, other] = [
    new ServiceDenial(redis, keys, 60_000),
    new ServiceDenial(redis, keys, 60_000),
  ];
  expect(await one.claimAskedProbe()).toBe(false);
  await one.askForProbe();
  await other.askForProbe();
  const claims = await Promise.all([one.claimAskedProbe(), other.claimAskedProbe()]);
  expect(claims.toSorted()).toEqual([false, true]);
  await one.askForProbe();
  expect(await one.claimAskedProbe()).toBe(false);
  expect(await redis.pttl(keys.probeAsked)).toBeGreaterThan(0);
  expect(await one.current()).toBeUndefined();
});
