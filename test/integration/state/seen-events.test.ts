/** How events are remembered that were staged. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, test } from "vitest";
import { eventKey } from "../../../src/core/event/event-order.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
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

const identityOf = (n: number) => ({ source: "/crm/test", id: `event ${n}` });
const keyOf = (n: number) => eventKey(identityOf(n));
const change = (n: number, more: Partial<StateToStage> = {}) =>
  stateOf(`c${n}`, "1", { eventKey: keyOf(n), content: "hash", ...more });
const seenOf = async (...ns: number[]) => {
  const seen = await staged.seen(ns.map(identityOf), () => "hash");
  return [...seen].map(({ id }) => id);
};

test("an event is remembered for seven days, by a hash alone", async () => {
  await staged.stage(change(1));
  const all = await redis.keys("*");
  const name = all.find((key) => key.startsWith(stores.keys.seen(""))) ?? "";
  expect(name).not.toContain("event");
  expect(await redis.get(name)).toBe("hash");
  expect(await redis.ttl(name)).toBeGreaterThan(7 * DAY_S - 60);
  expect(await redis.ttl(name)).toBeLessThanOrEqual(7 * DAY_S);
  expect(await staged.stage(change(1, { crmCode: "other" }))).toMatchObject({
    result: "duplicate",
  });
  expect(await redis.exists(stores.keys.staged("other"))).toBe(0);
});

test("an event with other content is a change of its own, once", async () => {
  await staged.stage(change(1));
  const other = change(1, { order: "2", content: "other" });
  expect(await staged.stage(other)).toMatchObject({ result: "staged", reused: true });
  for (const again of [change(1, { order: "3" }), other])
    expect(await staged.stage(again)).toMatchObject({ result: "duplicate" });
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
  expect(await seenOf(2)).toEqual([]);
});

test("what is redriven or cancelled may be sent again", async () => {
  await staged.stage(change(1));
  await staged.stage(change(2, { lane: "bulk" }));
  expect(await seenOf(1, 2)).toEqual(["event 1", "event 2"]);
  await staged.forgetEvent(keyOf(1));
  expect(await seenOf(1, 2)).toEqual(["event 2"]);
  await stores.bulkChanges.drop(["c2"]);
  expect(await seenOf(1, 2)).toEqual([]);
});

test("an event that is not remembered any more changes nothing when it comes again", async () => {
  for (const n of [1, 2])
    await staged.stage(change(n, { order: n === 1 ? "3" : "1", eventKey: "" }));
  expect(await staged.stage(change(1, { order: "2" }))).toMatchObject({ result: "superseded" });
  expect(await staged.stage(change(2))).toMatchObject({ result: "staged", coalesced: true });
  expect(await redis.zcard(stores.keys.line("live"))).toBe(2);
});
