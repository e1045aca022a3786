import { Redis } from "ioredis";
import { afterAll, expect, inject, it } from "vitest";
import { ServiceDenial } from "../../../src/core/state/denial.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
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

it("a denial that begins soon after one has ended by a probe is probed as rarely", async () => {
  const denial = new ServiceDenial(redis, keysOf(uniquePrefix()), 60_000);
  const pauses: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    expect(await denial.begin("token", "")).toBe(true);
    const { nextProbeAt, since } = (await denial.current()) ?? { nextProbeAt: 0, since: 0 };
    pauses.push((nextProbeAt - since) / 60_000);
    expect(await denial.claimProbe(true)).toBe(true);
    expect(await denial.end()).toBe(true);
  }
  expect(pauses).toEqual([1, 2, 4, 6, 6]);
  expect(await denial.end()).toBe(false);
});
