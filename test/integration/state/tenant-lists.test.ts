import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { keysOf, type Keys } from "../../../src/core/state/keys.ts";
import { StoredTenantLists } from "../../../src/core/state/tenant-lists.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let keys: Keys;
let lists: StoredTenantLists;
beforeEach(() => {
  keys = keysOf(uniquePrefix());
  lists = new StoredTenantLists(redis, keys, HOUR);
});

const body = (...values: string[]) => ({ fields: { service: { type: "string", values } } });
const allowed = (of: StoredTenantLists) => [...(of.current().get("service")?.values ?? [])];

it("a doubted list is due, at most six times an hour, and not while it is a minute old", async () => {
  expect(await lists.areDue(0)).toBe(true);
  await lists.store(body("a"), 0);
  expect(await lists.areDue(59 * MINUTE)).toBe(false);
  expect(await lists.areDue(60 * MINUTE)).toBe(true);

  await lists.doubt(1);
  expect(await lists.areDue(59_000)).toBe(false);
  expect(await lists.areDue(MINUTE)).toBe(true);
  await lists.store(body("a"), MINUTE);
  await lists.doubt(2 * MINUTE);
  expect(await lists.areDue(10 * MINUTE)).toBe(false);
  expect(await lists.areDue(11 * MINUTE)).toBe(true);
});

it("a person's ask waits for no earlier doubt or failure, only for a list that is a minute old", async () => {
  await lists.store(body("a"), 0);
  await lists.doubt(MINUTE);
  await lists.store(body("a"), 2 * MINUTE);
  await lists.release(15 * MINUTE);
  await lists.refresh(2 * MINUTE + 1);
  expect(await lists.areDue(3 * MINUTE - 1)).toBe(false);
  expect(await lists.areDue(3 * MINUTE)).toBe(true);
  expect(await lists.claim(MINUTE)).toBe(true);
  await lists.store(body("a", "b"), 3 * MINUTE);
  expect(await lists.areDue(20 * MINUTE)).toBe(false);
});

it("an event waits for a list that may have changed, and not longer than half a minute", async () => {
  await lists.store(body("a"), 0);
  expect(await lists.askAgain(30_000)).toBe(false);
  expect(await lists.areDue(2 * MINUTE)).toBe(false);
  expect(await lists.askAgain(2 * MINUTE)).toBe(true);
  expect(await lists.areDue(2 * MINUTE)).toBe(true);
  expect(await lists.askAgain(2 * MINUTE + 29_000)).toBe(true);
  expect(await lists.askAgain(2 * MINUTE + 30_000)).toBe(false);
});

it("an event does not wait for a list that was fetched lately for the same reason", async () => {
  await lists.store(body("a"), 0);
  expect(await lists.askAgain(2 * MINUTE)).toBe(true);
  await lists.store(body("a"), 2 * MINUTE + 5000);
  expect(await lists.askAgain(2 * MINUTE + 9000)).toBe(false);
  expect(await lists.askAgain(12 * MINUTE)).toBe(false);
  expect(await lists.askAgain(13 * MINUTE)).toBe(true);
});

it("a process with an older list takes over the newer one before it refuses a value", async () => {
  const other = new StoredTenantLists(redis, keys, HOUR);
  await lists.store(body("a"), 0);
  await other.reload();
  await lists.store(body("a", "b"), 5000);
  expect(allowed(other)).toEqual(["a"]);
  expect(await other.askAgain(6000)).toBe(true);
  expect(allowed(other)).toEqual(["a", "b"]);
  expect(await other.askAgain(6000)).toBe(false);
});

it("tells what changed, and keeps in mind that dead letters may pass now", async () => {
  expect(await lists.store(body("a"), 0)).toEqual([]);
  expect(await lists.store(body("a"), 1)).toEqual([]);
  expect(await lists.store(body(), 2)).toMatchObject([{ field: "service" }]);
  expect(await lists.haveChanged()).toBeDefined();
  await lists.endChange();
  const other = new StoredTenantLists(redis, keys, HOUR);
  // Fewer values, too: a termination leaves them out.
  expect(await other.store(body("b"), 3)).toMatchObject([{ added: 1 }]);
  expect(await lists.haveChanged()).toBeDefined();
  await other.endChange();
  expect(await lists.haveChanged()).toBeUndefined();
});

it("keeps the last known lists when the response is not as promised", async () => {
  await lists.store(body("a"), 0);
  for (const odd of [{ fields: [] }, { fields: null }, {}, null]) {
    expect(await lists.store(odd, 1)).toBeUndefined();
  }
  expect(allowed(lists)).toEqual(["a"]);
  expect(await lists.fetchedAt()).toBe(0);
});

it("a field that cannot be read is left out, and a known list of it stays", async () => {
  const odd = { riskScore: { values: [1, 2, 3] }, nothing: null, list: ["a"], open: {} };
  expect(await lists.store({ fields: { ...body("a").fields, ...odd } }, 0)).toEqual([]);
  expect(allowed(lists)).toEqual(["a"]);
  expect([...lists.current().keys()]).toEqual(["service", "open"]);
  // Another field of the same answer is as new as ever.
  const branch = { values: ["north"] };
  const later = { fields: { service: { values: [1] }, branch } };
  expect(await lists.store(later, 1)).toMatchObject([{ field: "branch" }]);
  const other = new StoredTenantLists(redis, keys, HOUR);
  await other.reload();
  for (const one of [lists, other]) {
    expect(allowed(one)).toEqual(["a"]);
    expect([...(one.current().get("branch")?.values ?? [])]).toEqual(["north"]);
  }
});

it("remembers what a list has lost until it has it again", async () => {
  const losses = () => readOne(redis, lists.lossesReading());
  const lost = () => lists.current().get("service")?.lost;
  await lists.store(body("a", "b", "c"), 0);
  expect(await losses()).toEqual({});
  await lists.store(body("a"), 1);
  expect(await losses()).toEqual({ service: { at: 1, values: ["b", "c"] } });
  expect(lost()).toEqual(new Set(["b", "c"]));
  await lists.store(body("a", "b", "d"), 2);
  expect(await losses()).toEqual({ service: { at: 1, values: ["c"] } });
  expect(await lists.haveChanged()).toEqual(["service"]);
  await lists.store(body(), 3);
  expect(await losses()).toEqual({});
  await lists.store(body("a"), 4);
  expect(await losses()).toEqual({ service: { at: 4, values: "any" } });
  const other = new StoredTenantLists(redis, keys, HOUR);
  await other.reload();
  expect(other.current().get("service")?.lost).toBe("any");
});

it("remembers by field how many relations lack a value and are not fetched", async () => {
  const missed = () => readOne(redis, lists.missedReading());
  expect(await missed()).toBeUndefined();
  await lists.noteMissed({ service: 2 }, 1);
  await lists.noteMissed({ service: 1, branch: 3 }, 2);
  expect(await missed()).toEqual({ at: 2, records: { service: 1, branch: 3 } });
});
