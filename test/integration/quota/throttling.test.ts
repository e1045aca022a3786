import { expect, inject, test } from "vitest";
import type { ReplyHeaders } from "../../../src/base/retry-after.ts";
import { slowNetwork } from "../../support/slow-network.ts";
import { waitFor } from "../../support/wait-for.ts";
import { exchange, isGiven, openQuota, openRedis, spend } from "./support.ts";

/** A clock in whole seconds, `ms` from now, as an HTTP date. */
const dateIn = (ms: number) => new Date(Math.ceil((Date.now() + ms) / 1000) * 1000).toUTCString();
const epochIn = (ms: number) => Math.ceil((Date.now() + ms) / 1000);

interface Case {
  readonly what: string;
  readonly headers: () => ReplyHeaders;
  /** Least and most time until any process may send again, ms. */
  readonly stops: readonly [number, number];
}

const CASES: readonly Case[] = [
  { what: "seconds", headers: () => ({ "retry-after": "2" }), stops: [1990, 2050] },
  { what: "an HTTP date", headers: () => ({ "retry-after": dateIn(2000) }), stops: [1950, 3050] },
  {
    what: "a negative number, and a reset in seconds",
    headers: () => ({ "retry-after": "-5", "x-ratelimit-reset": String(epochIn(3000)) }),
    stops: [2900, 4050],
  },
  {
    what: "an absurd number, and a reset in milliseconds",
    headers: () => ({ "retry-after": "99999999", "x-ratelimit-reset": String(Date.now() + 3000) }),
    stops: [2900, 3050],
  },
  { what: "garbage", headers: () => ({ "retry-after": "soon" }), stops: [490, 1050] },
  { what: "nothing", headers: () => ({}), stops: [490, 1050] },
];

test.for(CASES)("A 429 with $what stops all processes for exactly that long", async (given) => {
  const { quota, prefix, pauses } = await openQuota();
  const permit = await quota.acquire("live");
  const before = Date.now();
  await exchange(permit, 429, given.headers());
  const after = Date.now();
  const other = await openQuota({}, prefix);
  const state = await other.quota.state();
  expect(state.stopped).toBe("throttled");
  expect(state.until).toBeGreaterThan(before + given.stops[0]);
  expect(state.until).toBeLessThan(after + given.stops[1]);
  expect(pauses).toEqual(["throttled"]);
  await other.quota.acquire("live");
  expect(Date.now()).toBeGreaterThanOrEqual(state.until ?? Infinity);
});

test("A pause is only ever extended", async () => {
  const { quota } = await openQuota();
  const permits = [await quota.acquire("live"), await quota.acquire("live")];
  await exchange(permits[0] as never, 429, { "retry-after": "30" });
  const { until } = await quota.state();
  await exchange(permits[1] as never, 429, { "retry-after": "1" });
  expect((await quota.state()).until).toBe(until);
});

test("A pause stays when all processes have ended", async () => {
  const first = await openQuota();
  await exchange(await first.quota.acquire("live"), 429, { "retry-after": "30" });
  await first.quota.disconnect();
  const second = await openQuota({}, first.prefix);
  expect((await second.quota.state()).stopped).toBe("throttled");
  const signal = AbortSignal.timeout(300);
  await expect(second.quota.acquire("live", signal)).rejects.toThrow(/timeout/);
});

test("429s in a row without a usable header stop for longer each time; a success resets this", async () => {
  const { quota } = await openQuota({ pacing: "burst" });
  /** The least and the greatest possible length of the pause, ms. */
  const throttle = async () => {
    const permit = await quota.acquire("live");
    const before = Date.now();
    await exchange(permit, 429);
    const after = Date.now();
    const until = (await quota.state()).until ?? 0;
    return { least: until - after, most: until - before };
  };
  expect((await throttle()).least).toBeLessThan(1050);
  expect((await throttle()).most).toBeGreaterThan(950);
  await spend(quota, 1);
  expect((await throttle()).least).toBeLessThan(1050);
});

test("A service that asks for the same short wait again and again is not asked as often", async () => {
  const { quota } = await openQuota({ pacing: "burst" });
  const throttle = async () => {
    await exchange(await quota.acquire("live"), 429, { "retry-after": "0.1" });
    return ((await quota.state()).until ?? 0) - Date.now();
  };
  for (let n = 0; n < 3; n += 1) expect(await throttle()).toBeLessThan(101);
  expect(await throttle()).toBeGreaterThan(3500);
});

test("After a 429 one request of all processes goes alone, until one is accepted", async () => {
  const { quota, prefix } = await openQuota({ pacing: "burst" });
  await exchange(await quota.acquire("live"), 429, { "retry-after": "0.1" });
  const other = await openQuota({ pacing: "burst" }, prefix);
  const first = await quota.acquire("live");
  const waiting = other.quota.acquire("live");
  expect(await isGiven(waiting)).toBe(false);
  await exchange(first, 429, { "retry-after": "0.1" });
  const second = await waiting;
  const waitingNext = quota.acquire("live");
  expect(await isGiven(waitingNext)).toBe(false);
  // One that is not used leaves its place to the next.
  second.cancel();
  const third = await waitingNext;
  const others = Array.from({ length: 5 }, () => other.quota.acquire("live"));
  expect(await isGiven(Promise.race(others))).toBe(false);
  await exchange(third, 200);
  expect(await Promise.all(others)).toHaveLength(5);
});

test("An unexplained 429 makes pacing steady for 24 hours, in every process", async () => {
  const { quota, prefix, logged } = await openQuota({ perHour: 1000, hourMs: 20_000 });
  await exchange(await quota.acquire("live"), 429, { "retry-after": "0.1" });
  expect(logged).toContain("quota.pacing_changed");
  const other = await openQuota({ perHour: 1000, hourMs: 20_000 }, prefix);
  expect((await other.quota.state()).pacing).toBe("steady");
  // The bucket is taken to be empty: one token each 20 ms, and the five of the pause.
  const times = await spend(other.quota, 20);
  expect((times[19] ?? 0) - (times[0] ?? 0)).toBeGreaterThan((19 - 5) * 20 - 25);
});

test("A 429 after a request without a reply does not make pacing steady", async () => {
  const { quota, logged } = await openQuota();
  const permit = await quota.acquire("live");
  permit.use();
  permit.spend();
  await permit.done({});
  await exchange(await quota.acquire("live"), 429, { "retry-after": "0.1" });
  expect((await quota.state()).pacing).not.toBe("steady");
  expect(logged).toEqual(["quota.throttled"]);
});

test("A 429 because others have spent the hour does not make pacing steady", async () => {
  const { quota } = await openQuota();
  const headers = { "retry-after": "20", "x-ratelimit-remaining": "0" };
  await exchange(await quota.acquire("live"), 429, headers);
  expect((await quota.state()).pacing).not.toBe("steady");
});

test("Requests of another program count until the service resets its quota", async () => {
  const { quota, prefix, logged } = await openQuota({ perHour: 100, hourMs: 30_000 });
  const permit = await quota.acquire("live");
  const headers = {
    "x-ratelimit-remaining": "40",
    "x-ratelimit-reset": String(Date.now() + 3000),
  };
  await exchange(permit, 200, headers);
  expect(logged).toContain("quota.spent_elsewhere");
  const other = await openQuota({ perHour: 100, hourMs: 30_000 }, prefix);
  const corrected = await waitFor(
    async () => {
      const state = await other.quota.state();
      return state.remaining === 40 && state;
    },
    { what: "slots taken" },
  );
  // All 59 of them return with the reset.
  expect(corrected.drainedAt({ live: 95, bulk: 0 }) - Date.now()).toBeLessThan(25_000);
  await waitFor(async () => (await other.quota.state()).remaining === 99, {
    what: "the slots to return",
  });
});

test("Over a slow Redis, too, the slots of another program are taken once", async () => {
  await using network = await slowNetwork(inject("redisUrl"));
  const limits = { perHour: 300, hourMs: 600_000 };
  const { quota, logged } = await openQuota(limits, undefined, openRedis(network.url));
  const headers = (remaining: number) => ({
    "x-ratelimit-remaining": String(remaining),
    "x-ratelimit-reset": String(epochIn(300_000)),
  });
  network.delayMs = 100;
  await exchange(await quota.acquire("live"), 200, headers(179));
  const longAfter = performance.now() + 6000;
  await waitFor(() => performance.now() > longAfter, { what: "a crash would be over" });
  await exchange(await quota.acquire("live"), 200, headers(178));
  expect(logged.filter((event) => event === "quota.spent_elsewhere")).toHaveLength(1);
  network.delayMs = 0;
  await waitFor(async () => (await quota.state()).remaining === 178, { what: "all are taken" });
});

test("A reply that was under way while Redis was emptied occupies nothing, the next one what the service says", async () => {
  const { quota, prefix } = await openQuota({ perHour: 100, hourMs: 30_000, burst: 100 });
  for (let n = 0; n < 30; n += 1) (await quota.acquire("live")).cancel();
  const permit = await quota.acquire("live");
  const redis = openRedis();
  await redis.del(await redis.keys(`*${prefix.slice(1, -1)}*`));
  const reset = String(epochIn(20_000));
  await exchange(permit, 200, { "x-ratelimit-remaining": "90", "x-ratelimit-reset": reset });
  await spend(quota, 1);
  expect((await quota.state()).remaining).toBe(98);
  await spend(quota, 1, { "x-ratelimit-remaining": "88", "x-ratelimit-reset": reset });
  await waitFor(async () => (await quota.state()).remaining === 88, { what: "nine are occupied" });
  await spend(quota, 20);
  expect((await quota.state()).remaining).toBe(68);
});

test("A count of the service that is higher than ours changes nothing", async () => {
  const { quota } = await openQuota({ perHour: 100, hourMs: 30_000 });
  const reset = String(epochIn(20_000));
  await spend(quota, 10, { "x-ratelimit-remaining": "100", "x-ratelimit-reset": reset });
  expect((await quota.state()).remaining).toBe(90);
});

test("The limit of a gateway that answers with a page of its own is not the service's", async () => {
  const { quota, logged } = await openQuota({ perHour: 100, hourMs: 30_000 });
  const limit = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(epochIn(20_000)) };
  await exchange(await quota.acquire("live"), 503, { ...limit, "content-type": "text/html" });
  expect(logged).not.toContain("quota.spent_elsewhere");
  const json = { ...limit, "content-type": "application/json; charset=utf-8" };
  await exchange(await quota.acquire("live"), 503, json);
  await waitFor(async () => (await quota.state()).remaining === 0, {
    what: "the service's counts",
  });
});

test("Requests in flight do not count as another program's", async () => {
  const { quota } = await openQuota({ perHour: 100, hourMs: 30_000 });
  const permits = await Promise.all(Array.from({ length: 15 }, async () => quota.acquire("live")));
  const reset = String(epochIn(20_000));
  // Replies overtake each other: each has the count of the moment when its request arrived.
  const order = permits.map((permit, i) => ({ permit, left: 99 - i })).toReversed();
  for (const { permit, left } of order) {
    await exchange(permit, 200, {
      "x-ratelimit-remaining": String(left),
      "x-ratelimit-reset": reset,
    });
  }
  expect((await quota.state()).remaining).toBe(85);
});

test("All keys have the prefix", async () => {
  const { quota, prefix } = await openQuota();
  await spend(quota, 3);
  const redis = openRedis();
  const keys = await redis.keys(`*${prefix.slice(1, -1)}*`);
  expect(keys).toHaveLength(3);
  expect(keys.filter((key) => !key.startsWith(`${prefix}:quota:`))).toEqual([]);
});
