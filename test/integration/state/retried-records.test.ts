import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { readOne } from "../../../src/ops/redis-reading.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { RetriedRecords } from "../../../src/state/retried-records.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let retried: RetriedRecords;
beforeEach(() => {
  keys = keysOf(uniquePrefix());
  retried = new RetriedRecords(redis, keys);
});

const most = () => readOne(redis, retried.most());

const SINCE = Date.now() - 60_000;

/** Fails so often, first a minute ago; its change waits. */
async function fails(crmCode: string, times: number, since = SINCE): Promise<void> {
  await redis.zadd(keys.unsynced("live"), SINCE, crmCode);
  for (let n = 0; n < times; n += 1) {
    await retried.failed(crmCode, { reason: "500 (server_error)", record: `hash-${crmCode}` });
  }
  const details = JSON.parse((await redis.hget(keys.retriedDetails, crmCode)) ?? "") as object;
  await redis.hset(keys.retriedDetails, crmCode, JSON.stringify({ ...details, since }));
}

it("tells the record with the most tries, and how many there are", async () => {
  await fails("a", 3);
  await fails("b", 14, SINCE - 1000);
  await fails("c", 1, Date.now());
  expect(await most()).toEqual({
    records: 2,
    tries: 14,
    since: SINCE - 1000,
    reason: "500 (server_error)",
    record: "hash-b",
  });
});

it("records count that wait for hours after one try, because many fail", async () => {
  for (let n = 0; n < 30; n += 1) await fails(`once${n}`, 1);
  expect(await most()).toBeUndefined();
  await fails("a", 2);
  expect(await most()).toMatchObject({ records: 31, tries: 2, record: "hash-a" });
});

it("a record that has just begun to fail does not count yet", async () => {
  await fails("a", 5, Date.now());
  expect(await most()).toBeUndefined();
});

it("the tries of a record go on counting when a newer event comes", async () => {
  await fails("a", 3);
  await retried.failed("a", { reason: "timeout", record: "hash-a" });
  expect(await most()).toMatchObject({ tries: 4, since: SINCE, reason: "timeout" });
});

it("is over when the change has ended, with or without a request", async () => {
  await fails("a", 5);
  await fails("b", 5);
  await retried.ended("a");
  expect(await most()).toMatchObject({ records: 1, record: "hash-b" });
  await redis.zrem(keys.unsynced("live"), "b");
  await retried.forgetEnded();
  expect(await redis.exists(keys.retried, keys.retriedDetails)).toBe(0);
  expect(await most()).toBeUndefined();
});

it("remembers at most 1000 records", async () => {
  await fails("many tries", 3);
  await Promise.all(
    Array.from({ length: 1050 }, (_, n) =>
      retried.failed(`r${n}`, { reason: "timeout", record: "any" }),
    ),
  );
  expect(await redis.zcard(keys.retried)).toBe(1000);
  expect(await redis.hlen(keys.retriedDetails)).toBe(1000);
  expect(await most()).toMatchObject({ tries: 3 });
});
