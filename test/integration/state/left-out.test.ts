import { Redis } from "ioredis";
import { afterAll, expect, inject, test } from "vitest";
import { eraseRecord, lookAtRecord } from "../../../src/forget/record-traces.ts";
import { readOne } from "../../../src/ops/redis-reading.ts";
import { Resealing } from "../../../src/state/reseal.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { STATE_KEY, stateOf, storesOf } from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const DAY_MS = 86_400_000;

test("keeps the newest event, sealed, of a record that lacks a value, and counts such records", async () => {
  const { keys, staged } = storesOf(redis);
  const { leftOut } = staged;
  const counts = () => readOne(redis, leftOut.countsReading());
  const stage = (crmCode: string, order: string, fields: readonly string[]) =>
    staged.stage({ ...stateOf(crmCode, order), leftOut: fields });
  await stage("1", "1", ["service"]);
  await stage("1", "2", ["service", "branch"]);
  await stage("2", "1", ["service"]);
  expect(await counts()).toEqual({ service: 2, branch: 1 });
  const { event, order } = stateOf("1", "2");
  expect(await leftOut.find("1")).toMatchObject({ id: "l:1", crmCode: "1", event, order });
  expect(await redis.hget(keys.leftOut, "1")).not.toContain(event);
  // What is older changes nothing; what has all of its values is no longer one of them.
  await stage("2", "0", []);
  expect(await counts()).toMatchObject({ service: 2 });
  await stage("2", "3", []);
  expect(await counts()).toMatchObject({ service: 1 });
  expect(await leftOut.find("2")).toBeUndefined();

  // A rotation of STATE_KEY seals it anew, and forget erases it.
  const newer = Buffer.alloc(32, 8);
  const rotated = storesOf(redis, { keys, sealing: new Sealing([newer, STATE_KEY]) });
  await new Resealing(rotated.records).pass([], async () => {});
  const onlyNew = storesOf(redis, { keys, sealing: new Sealing([newer]) });
  expect(await onlyNew.staged.leftOut.find("1")).toMatchObject({ event });
  const rest = { ...onlyNew, redis };
  expect(await lookAtRecord(rest, "1")).toContain("leftOut");
  expect((await eraseRecord(rest, "1")).found).toContain("leftOut");
  expect(await redis.exists(keys.leftOut)).toBe(0);
  expect(await counts()).toEqual({ service: 0, branch: 0 });
});

test("drops an event after thirty days", async () => {
  const { staged } = storesOf(redis);
  await staged.stage({ ...stateOf("1", "1"), leftOut: ["service"] });
  await staged.leftOut.expire(Date.now() + 29 * DAY_MS);
  expect(await staged.leftOut.find("1")).toBeDefined();
  await staged.leftOut.expire(Date.now() + 31 * DAY_MS);
  expect(await staged.leftOut.find("1")).toBeUndefined();
});
