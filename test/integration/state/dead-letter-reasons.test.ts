import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it, vi } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import { createDeadLetter, type DeadReason } from "../../../src/core/sync/dead-letter.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { stateOf, storesOf, type TestStores } from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let dead: TestStores["deadLetters"];
let staged: TestStores["staged"];

beforeEach(() => {
  ({ keys, deadLetters: dead, staged } = storesOf(redis));
});

const letterOf = (crmCode: string, reason: DeadReason, order = "1") =>
  createDeadLetter({ crmCode }, { reason, problems: [], event: "{}", order, at: 1 });

const letterOfEvent = (eventKey: string, reason: DeadReason) =>
  createDeadLetter({ eventKey }, { reason, problems: [], event: "{}", at: 1 });

/** The reasons that have letters. */
const counted = async () =>
  Object.fromEntries(
    Object.entries(await readOne(redis, dead.reasons())).filter(([, count]) => count > 0),
  );

it("each stored letter counts once, under its newest reason", async () => {
  await dead.store(letterOf("a", "invalid"));
  await dead.store(letterOf("b", "invalid"));
  await dead.store(letterOf("a", "service_rejected", "2"));
  expect(await dead.store(letterOf("a", "given_up", "1"))).toBe("superseded");
  expect(await counted()).toEqual({ invalid: 1, service_rejected: 1 });
});

it("a dropped letter is not counted any more; dropping it twice changes nothing", async () => {
  await dead.store(letterOf("a", "invalid"));
  await dead.store(letterOf("b", "invalid"));
  expect(await dead.drop("c:a")).toBe(true);
  expect(await dead.drop("c:a")).toBe(false);
  const b = await dead.find("c:b");
  if (b === undefined) throw new Error("no letter is left");
  expect(await dead.dropRead({ ...b, raw: "changed since" })).toBe(false);
  expect(await counted()).toEqual({ invalid: 1 });
  expect(await dead.dropRead(b)).toBe(true);
  expect(await counted()).toEqual({});
});

it("a newer event of the record takes its letters out of the count", async () => {
  await dead.store(letterOf("a", "invalid"));
  await dead.store(letterOfEvent("key", "defect"));
  await staged.stage(stateOf("a", "2", { eventKey: "key" }));
  expect(await dead.count()).toBe(0);
  expect(await counted()).toEqual({});
});

it("reading the numbers costs the same with none and with hundreds", async () => {
  // The stores of this test have written the version of the state by then.
  await vi.waitFor(async () => expect(await redis.exists(keys.stateVersion)).toBe(1));
  const sent = vi.spyOn(redis, "sendCommand");
  const cost = async () => {
    sent.mockClear();
    await readOne(redis, dead.reasons());
    return sent.mock.calls.length;
  };
  const none = await cost();
  const many = Array.from({ length: 300 }, (_, n) => dead.store(letterOf(`r${n}`, "invalid")));
  await Promise.all(many);
  await dead.store(letterOf("last", "defect"));
  expect(await cost()).toBe(none);
  expect(await counted()).toEqual({ invalid: 300, defect: 1 });
  sent.mockRestore();
});

it("numbers that are missing or wrong are counted again", async () => {
  await dead.store(letterOf("a", "invalid"));
  await dead.store(letterOf("b", "defect"));
  await redis.del(keys.deadReasons);
  expect(await dead.recount()).toBe(true);
  expect(await counted()).toEqual({ invalid: 1, defect: 1 });
  expect(await dead.recount()).toBe(false);
});

it("a full Redis lets a person drop letters, which frees memory", async () => {
  await using full = await ownRedis();
  const { deadLetters: letters } = storesOf(full.client);
  await letters.store(letterOf("a", "invalid"));
  await full.client.config("SET", "maxmemory", "1mb");
  await expect(letters.store(letterOf("b", "invalid"))).rejects.toThrow(/OOM/);
  expect(await letters.drop("c:a")).toBe(true);
  expect(await readOne(full.client, letters.reasons())).toEqual({ invalid: 0 });
});
