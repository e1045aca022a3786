import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Outage } from "../../../src/state/outage.ts";
import { RetriedRecords } from "../../../src/state/retried-records.ts";
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
    expect(await outage.failed("timeout", `record ${failure}`)).toBe(failure === 5);
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

it("makes no try while another one is under way", async () => {
  const outage = () => new Outage(redis, keys, { tryMs: 30_000 });
  const [first, second] = [outage(), outage()];
  await begin(first);
  await endPause();
  expect(await first.waitMs()).toBe(0);
  expect(await second.waitMs()).toBeGreaterThan(25_000);
  // It was not made: there was nothing to send.
  await first.notTried();
  expect(await second.waitMs()).toBeLessThanOrEqual(1000);
  await endPause();
  expect(await second.waitMs()).toBe(0);
  await first.notTried();
  expect(await first.waitMs()).toBeGreaterThan(25_000);
  await second.failed("timeout", "r");
  expect(await first.waitMs()).toBeLessThanOrEqual(2000);
});

it("each failed try makes the pause longer by half, up to a minute", async () => {
  const outage = new Outage(redis, keys);
  await begin(outage);
  for (let pause = 1500; pause < 100_000; pause *= 1.5) {
    await endPause();
    expect(await outage.waitMs()).toBe(0);
    await outage.failed("timeout", "r");
    const next = Math.min(pause, 60_000);
    const wait = await outage.waitMs();
    expect(wait).toBeLessThanOrEqual(next);
    expect(wait).toBeGreaterThan(next * 0.8);
  }
});

it("requests in flight when the outage began make its pauses no longer", async () => {
  const outage = new Outage(redis, keys);
  await begin(outage);
  for (let n = 0; n < 15; n += 1) await outage.failed("connection_reset", `in flight ${n}`);
  expect(await outage.waitMs()).toBeLessThanOrEqual(1000);
  await endPause();
  expect(await outage.waitMs()).toBe(0);
  for (let n = 0; n < 15; n += 1) await outage.failed("timeout", `slower ${n}`);
  const wait = await outage.waitMs();
  expect(wait).toBeLessThanOrEqual(2000);
  expect(wait).toBeGreaterThan(1000);
});

it("ends with the first usable reply, even of a process that never failed itself", async () => {
  const healthy = new Outage(redis, keys);
  await healthy.succeeded();
  await begin(new Outage(redis, keys));
  expect(await healthy.current()).toMatchObject({ reason: "timeout" });
  await endPause();
  expect(await healthy.waitMs()).toBe(0);
  const records = [1, 2, 3, 4, 5].map((failure) => `record ${failure}`);
  expect((await healthy.succeeded())?.toSorted()).toEqual(records);
  expect(await healthy.succeeded()).toBeUndefined();
  expect(await healthy.current()).toBeUndefined();
  expect(await healthy.waitMs()).toBe(0);
});

it.each(["stale_permit", "slept", "closed", "forbidden", "unconfirmed"])(
  "%s says nothing about the service",
  async (reason) => {
    const outage = new Outage(redis, keys);
    for (let n = 0; n < 9; n += 1) expect(await outage.failed(reason, `${n}`)).toBe(false);
    expect(await outage.waitMs()).toBe(0);
    expect(await outage.current()).toBeUndefined();
  },
);

it.each(["dns", "proxy"])("%s of one process pauses that process alone", async (reason) => {
  const now = { ms: 0 };
  const two = async () => 2;
  const failing = new Outage(redis, keys, { runningProcesses: two, now: () => now.ms });
  const healthy = new Outage(redis, keys, { runningProcesses: two });
  for (let n = 1; n <= 6; n += 1) {
    expect(await failing.waitMs()).toBe(0);
    await failing.failed(reason, "r");
    if (n === 5) {
      for (let inFlight = 0; inFlight < 15; inFlight += 1) await failing.failed(reason, "s");
      expect(await failing.waitMs()).toBe(1000);
      now.ms = 1000;
    }
  }
  expect(await failing.waitMs()).toBe(2000);
  expect(await healthy.waitMs()).toBe(0);
  expect(await healthy.current()).toBeUndefined();
  now.ms = 3000;
  expect(await failing.waitMs()).toBe(0);
  await failing.succeeded();
  for (let n = 1; n <= 4; n += 1) await failing.failed(reason, "r");
  expect(await failing.waitMs()).toBe(0);
});

it("records that fail while no other is sent are no outage; a third one shows that it is", async () => {
  const outage = new Outage(redis, keys);
  for (let n = 0; n < 20; n += 1) {
    expect(await outage.failed("server_error", n % 3 === 0 ? "a" : "b")).toBe(false);
  }
  expect(await outage.current()).toBeUndefined();
  expect(await outage.failed("server_error", "c")).toBe(true);
  // The pauses grow from the shortest one.
  const { nextTryAt = 0, since = 0 } = (await outage.current()) ?? {};
  expect(nextTryAt - since).toBe(1000);
  await outage.succeeded();
  expect(await redis.exists(keys.outage, keys.outageRecords)).toBe(0);
});

it("without a connection, one record is enough", async () => {
  const outage = new Outage(redis, keys);
  for (let n = 1; n <= 5; n += 1) {
    expect(await outage.failed("connection_refused", "a")).toBe(n === 5);
  }
});

it("the same trouble of every process is an outage, so that status names it", async () => {
  const two = async () => 2;
  const [first, second] = [
    new Outage(redis, keys, { runningProcesses: two }),
    new Outage(redis, keys, { runningProcesses: two }),
  ];
  await first.failed("dns", "r");
  for (let failure = 1; failure <= 5; failure += 1) {
    expect(await second.failed("dns", "r")).toBe(failure === 5);
  }
  expect(await first.current()).toMatchObject({ reason: "dns" });
});

it("records that fail again and again beside others make no second outage, and wait for their own retries", async () => {
  const outage = new Outage(redis, keys);
  await begin(outage);
  expect(await outage.unfitForTry()).toEqual(new Set([1, 2, 3, 4, 5].map((n) => `record ${n}`)));
  expect(await outage.succeeded()).toHaveLength(5);
  for (let round = 0; round < 3; round += 1) {
    for (let n = 1; n <= 5; n += 1) {
      expect(await outage.failed("server_error", `record ${n}`)).toBe(false);
    }
  }
  expect(await outage.current()).toBeUndefined();
  expect(await outage.unfitForTry()).toEqual(new Set());
  // Others that fail are an outage; at its end the suspects are not sent at once any more.
  for (let n = 1; n <= 5; n += 1) await outage.failed("server_error", `new ${n}`);
  await outage.failed("server_error", "record 1");
  expect(await outage.unfitForTry()).toContain("record 2");
  const again = await outage.succeeded();
  expect(again?.toSorted()).toEqual([1, 2, 3, 4, 5].map((n) => `new ${n}`));
  expect(await redis.pttl(keys.outageSuspects)).toBeGreaterThan(0);
});

it("the same records make a second outage, if their changes have ended since the first", async () => {
  const outage = new Outage(redis, keys);
  const retried = new RetriedRecords(redis, keys);
  await begin(outage);
  for (const record of (await outage.succeeded()) ?? []) await retried.ended(record);
  expect(await redis.exists(keys.outageSuspects)).toBe(0);
  await begin(outage);
  expect(await outage.succeeded()).toHaveLength(5);
});
