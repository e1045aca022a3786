import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { MAX_SOURCES, Sources } from "../../../src/core/state/sources.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

function openTenant() {
  const redis = new Redis(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  return { redis, keys: keysOf(uniquePrefix()) };
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test("the longest pauses of two weeks are kept, the longer before the shorter, by any process", async () => {
  const { keys, redis } = openTenant();
  const pauses = async () => readOne(redis, new Sources(redis, keys).pauses());
  // Each event comes to another process.
  const heard = (at: number) => new Sources(redis, keys).heard("/crm", at);
  const began = 100 * DAY;
  await heard(began);
  expect(await pauses()).toEqual({ "/crm": { since: began, pauses: [] } });
  await heard(began + HOUR / 2);
  await heard(began + 3 * HOUR);
  await heard(began + 4 * HOUR);
  expect((await pauses())["/crm"]?.pauses).toEqual([
    [began + 3 * HOUR, 2.5 * HOUR],
    [began + 4 * HOUR, HOUR],
  ]);
  // A longer one makes the shorter ones before it irrelevant.
  await heard(began + 6 * HOUR);
  expect((await pauses())["/crm"]?.pauses).toEqual([
    [began + 3 * HOUR, 2.5 * HOUR],
    [began + 6 * HOUR, 2 * HOUR],
  ]);
  // One that hears all by itself notes the same.
  const alone = new Sources(redis, keys);
  for (let at = began + 6 * HOUR; at <= began + 20 * DAY; at += HOUR) await alone.heard("/crm", at);
  await alone.heard("/crm", began + 20 * DAY + 2 * HOUR);
  expect((await pauses())["/crm"]).toEqual({
    since: began,
    pauses: [[began + 20 * DAY + 2 * HOUR, 2 * HOUR]],
  });
});

test("with a source, what is known of it is forgotten", async () => {
  const { keys, redis } = openTenant();
  const sources = new Sources(redis, keys);
  for (let n = 0; n <= MAX_SOURCES; n += 1) await sources.heard(`/crm/${n}`, DAY + n);
  await sources.forgetOldest();
  const known = await readOne(redis, sources.pauses());
  expect(Object.keys(known)).toHaveLength(MAX_SOURCES);
  expect(known).not.toHaveProperty("/crm/0");
});
