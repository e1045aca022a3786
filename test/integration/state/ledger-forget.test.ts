import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { eraseRecord } from "../../../src/people/forget/find-traces.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import { StateAge } from "../../../src/core/state/state-age.ts";
import {
  DELETED,
  listed,
  ordersAt,
  rowAt,
  stateOf,
  storesOf,
  takeFrom,
  type TestStores,
} from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let ledger: TestStores["ledger"];
let stores: TestStores;

beforeEach(() => {
  stores = storesOf(redis);
  ({ keys, ledger } = stores);
});

const row = (fingerprint: string, order = "") => rowAt(order, fingerprint);
const stage = (order: string, fingerprint: string) =>
  stores.staged.stage(stateOf("4711", order, { fingerprint }));
const list = (crmCode: string, fingerprint: string) =>
  listed(stores, [[crmCode, row(fingerprint)]]);

/** Settles a first change, so that the row has its orders. */
async function settleFirst(): Promise<void> {
  await listed(stores, []);
  await stage("order 5", "five");
  const taken = await takeFrom(stores, "4711");
  await stores.staged.settle(taken, { row: row("five", "order 5"), finished: true });
}

it("a forgotten row is not believed, its orders are, and the listing fills it again", async () => {
  await settleFirst();
  expect((await stage("order 6", "five")).result).toBe("unchanged");
  expect(await ledger.forgetAll()).toBe(1);
  expect((await ledger.warmUp()).state).toBe("new");
  const orders = ordersAt("order 6");
  expect(await ledger.row("4711")).toMatchObject({ exists: undefined, orders });
  expect((await stage("order 4", "four")).result).toBe("superseded");
  await list("4711", "listed");
  expect(await ledger.row("4711")).toMatchObject({ exists: true, fingerprint: "listed", orders });
  expect((await stage("order 7", "five")).result).toBe("staged");
});

it("a relation that is listed after its record was erased has the record's orders", async () => {
  await settleFirst();
  expect(await eraseRecord({ ...stores, redis }, "4711")).toMatchObject({ found: ["ledger"] });
  await ledger.forgetAll();
  await list("4711", "listed");
  expect((await stage("order 4", "four")).result).toBe("superseded");
  expect((await stage("order 6", "listed")).result).toBe("unchanged");
  expect(await redis.exists(keys.erased("4711"))).toBe(0);
});

it("a change that was read before the ledger was forgotten is made anew", async () => {
  await settleFirst();
  await stage("order 6", "six");
  const taken = await takeFrom(stores, "4711");
  await ledger.forgetAll();
  await list("4711", "listed");
  // The reply is about a request that was sent before: it is the newest proof.
  await stores.staged.settle(taken, { row: row("six", "order 6"), finished: true });
  expect(await ledger.row("4711")).toMatchObject({ fingerprint: "six" });
  expect((await stage("order 7", "six")).result).toBe("unchanged");
});

it("a listing that began before the ledger was forgotten cannot end the new warm-up", async () => {
  expect(await listed(stores, [["1", row("a")]], { next: "page 2" })).toBe(true);
  await ledger.forgetAll();
  expect(await listed(stores, [["2", row("b")]], { cursor: "page 2" })).toBe(false);
  expect((await ledger.warmUp()).state).toBe("new");
  expect(await ledger.row("2")).toBeUndefined();
});

it("what the service was asked before the ledger was forgotten does not become a row of the new one", async () => {
  await settleFirst();
  const askedAt = Date.now() - 60_000;
  await ledger.forgetAll();
  const old = { ...row("old"), provedAt: askedAt };
  // The first page of a list, and a comparison's.
  expect(await ledger.writePage([["4711", old]], undefined, undefined, { askedAt })).toBe(false);
  expect(await ledger.heal([["4712", old]], askedAt)).toBe(0);
  expect(await ledger.row("4712")).toBeUndefined();
  expect((await ledger.warmUp()).state).toBe("new");
  expect(await list("4711", "listed")).toBe(true);
  const orders = ordersAt("order 5");
  expect(await ledger.row("4711")).toMatchObject({ fingerprint: "listed", orders });
  expect(await ledger.heal([["4712", row("listed")]], Date.now() + 1000)).toBe(1);
});

it("a request that fails after the ledger was forgotten does not bring the old row back", async () => {
  await settleFirst();
  await stage("order 6", "six");
  const taken = await takeFrom(stores, "4711");
  await ledger.forgetAll();
  await stores.staged.settle(taken, { row: "before", finished: false });
  expect(await ledger.row("4711")).toMatchObject({ exists: undefined, fingerprint: undefined });
  // Nor when somebody deletes the rows themselves.
  const again = await takeFrom(stores, "4711");
  await redis.del(keys.ledger);
  await stores.staged.settle(again, { row: "before", finished: false });
  expect(await ledger.row("4711")).toBeUndefined();
});

it("one row is forgotten, but not while a request is under way", async () => {
  await settleFirst();
  await stage("order 6", "six");
  const taken = await takeFrom(stores, "4711");
  expect(await ledger.forgetRow("4711")).toBe(false);
  await stores.staged.settle(taken, { row: row("six", "order 6"), finished: true });
  expect(await ledger.forgetRow("4711")).toBe(true);
  expect((await stage("order 7", "six")).result).toBe("staged");
});

it("a ledger that somebody deleted is not believed once that is noticed", async () => {
  const rows = ["4711", "4712", "4713"].map((code) => [code, row(code)] as const);
  await listed(stores, rows);
  expect(await ledger.unlessLost()).toBeDefined();
  expect((await stage("order 1", "4711")).result).toBe("unchanged");
  await redis.hdel(keys.ledger, "4712", "4713");
  expect(await ledger.unlessLost()).toBeUndefined();
  expect(await ledger.warmUp()).toMatchObject({ state: "new", relations: 0 });
  expect((await stage("order 2", "4711")).result).toBe("staged");
  await listed(stores, rows);
  expect(await ledger.warmUp()).toMatchObject({ state: "done", relations: 3 });
});

it("of a deleted ledger no absence is believed that it only seems to show, also before it is noticed", async () => {
  await listed(stores, [["4712", row("4712")]]);
  await redis.del(keys.ledger);
  const deletion = stateOf("4712", "2", DELETED);
  expect((await stores.staged.stage(deletion)).result).toBe("staged");
  expect((await takeFrom(stores, "4712")).row).toMatchObject({ exists: false, byList: true });
});

/** Lets Redis go back to a copy of an age. */
async function goBackTo({ key }: StateAge, copy: Record<string, string>): Promise<void> {
  await redis.del(key);
  await redis.hset(key, copy);
}

it("the age: an older copy is a loss until it is noted, whatever other processes count", async () => {
  const mine = new StateAge(redis, keys);
  const other = new StateAge(redis, keys);
  expect(await mine.wentBackwards()).toBe(false);
  expect(await other.wentBackwards()).toBe(false);
  expect(await mine.wentBackwards()).toBe(false);
  const copy = await redis.hgetall(mine.key);
  await Promise.all(Array.from({ length: 20 }, () => mine.count()));
  await goBackTo(mine, copy);
  expect(await other.wentBackwards()).toBe(false);
  await mine.count();
  expect(await mine.wentBackwards()).toBe(true);
  expect(await mine.wentBackwards()).toBe(true);
  await mine.note(7);
  expect(await mine.wentBackwards()).toBe(false);
  expect(await readOne(redis, mine.wentBackwardsAt())).toBe(7);
});

it("the age: a change that was taken and settled between two ticks is missed when it is lost", async () => {
  const { age } = stores;
  await settleFirst();
  expect(await age.wentBackwards()).toBe(false);
  const copy = await redis.hgetall(age.key);
  await stage("order 6", "six");
  const taken = await takeFrom(stores, "4711");
  await stores.staged.settle(taken, { row: row("six", "order 6"), finished: true });
  await goBackTo(age, copy);
  expect(await age.wentBackwards()).toBe(true);
  await age.note(7);
  expect(await age.wentBackwards()).toBe(false);
});

it("the age: a Redis that was emptied has lost everything, for each of the processes", async () => {
  const mine = new StateAge(redis, keys);
  const other = new StateAge(redis, keys);
  for (let n = 0; n < 5; n += 1) await mine.count();
  expect(await other.wentBackwards()).toBe(false);
  await redis.del(mine.key, other.key);
  expect(await mine.wentBackwards()).toBe(true);
  expect(await other.wentBackwards()).toBe(true);
  // One that starts now has met nothing before.
  expect(await new StateAge(redis, keys).wentBackwards()).toBe(false);
  await mine.note(1);
  expect(await mine.wentBackwards()).toBe(false);
});
