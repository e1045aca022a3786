/** How events are remembered that were staged. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, test } from "vitest";
import { eventKey } from "../../../src/event/event-key.ts";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import { stateOf, storesOf, type TestStores } from "../../support/stores-of.ts";

const DAY_S = 86_400;

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let stores: TestStores;
let staged: TestStores["staged"];
beforeEach(() => {
  stores = storesOf(redis);
  ({ staged } = stores);
});

const keyOf = (n: number) => eventKey({ source: "/crm/test", id: `event ${n}` });
const change = (n: number, more: Partial<StateToStage> = {}) =>
  stateOf(`c${n}`, "1", { eventKey: keyOf(n), ...more });

test("an event is remembered for seven days, by a hash alone", async () => {
  await staged.stage(change(1));
  const all = await redis.keys("*");
  const name = all.find((key) => key.startsWith(stores.keys.seen(""))) ?? "";
  expect(name).not.toContain("event");
  expect(await redis.get(name)).toBe("1");
  expect(await redis.ttl(name)).toBeGreaterThan(7 * DAY_S - 60);
  expect(await redis.ttl(name)).toBeLessThanOrEqual(7 * DAY_S);
  await staged.stage(change(1, { crmCode: "other" }));
  expect(await redis.exists(stores.keys.staged("other"))).toBe(0);
});

test("of copies that arrive at once, one is staged", async () => {
  const copies = Array.from({ length: 20 }, () => staged.stage(change(1)));
  const results = (await Promise.all(copies)).map(({ result }) => result);
  expect(results.filter((result) => result === "staged")).toHaveLength(1);
  expect(results.filter((result) => result === "duplicate")).toHaveLength(19);
});

test("a state that could not be staged has no event that was seen", async () => {
  await redis.hset(stores.keys.ledger, "c2", "{");
  await expect(staged.stage(change(2))).rejects.toThrow(SyntaxError);
  expect(await staged.seen([keyOf(2)])).toEqual(new Set());
});

test("what is redriven or cancelled may be sent again", async () => {
  await staged.stage(change(1));
  await staged.stage(change(2, { lane: "bulk" }));
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set([keyOf(1), keyOf(2)]));
  await staged.forgetEvent(keyOf(1));
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set([keyOf(2)]));
  await stores.bulkChanges.drop(["c2"]);
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set());
});

test("an event that is not remembered any more changes nothing when it comes again", async () => {
  for (const n of [1, 2])
    await staged.stage(change(n, { order: n === 1 ? "3" : "1", eventKey: "" }));
  expect(await staged.stage(change(1, { order: "2" }))).toMatchObject({ result: "superseded" });
  expect(await staged.stage(change(2))).toMatchObject({ result: "staged", coalesced: true });
  expect(await redis.zcard(stores.keys.unsynced("live"))).toBe(2);
});
