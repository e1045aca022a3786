import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { readOne } from "../../../src/ops/redis-reading.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { StateAge } from "../../../src/state/state-age.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let ledger: Ledger;
let staged: StagedStates;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  ledger = new Ledger(redis, keys);
  staged = new StagedStates(redis, keys, new Sealing([]));
});

const row = (fingerprint: string, watermark = ""): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint,
  terminated: false,
  variant: "Person",
  watermark,
  provedAt: 1,
});

const stage = (order: string, fingerprint: string) =>
  staged.stage({
    crmCode: "4711",
    eventKey: `key ${order}`,
    order,
    payload: `payload ${order}`,
    fingerprint,
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: 1,
    event: "{}",
  });

const deleted = (crmCode: string) => ({
  crmCode,
  eventKey: `deleted ${crmCode}`,
  order: "order 1",
  payload: undefined,
  fingerprint: undefined,
  variant: undefined,
  status: "terminated" as const,
  lane: "live" as const,
  time: 1,
  event: "{}",
});

/** Settles a first change, so that the row has a watermark. */
async function settleFirst(): Promise<void> {
  await ledger.writePage([], undefined);
  await stage("order 5", "five");
  const taken = await staged.take("4711", "me", 60_000);
  if (taken.kind !== "taken") throw new Error("it was not taken");
  await staged.settle(taken.state, { row: row("five", "order 5"), finished: true });
}

it("a forgotten row is not believed, its watermark is, and the listing fills it again", async () => {
  await settleFirst();
  expect((await stage("order 6", "five")).result).toBe("unchanged");
  expect(await ledger.forgetAll()).toBe(1);
  expect((await ledger.warmUp()).state).toBe("new");
  expect(await ledger.row("4711")).toMatchObject({ exists: undefined, watermark: "order 6" });
  expect((await stage("order 4", "four")).result).toBe("superseded");
  await ledger.writePage([["4711", row("listed")]], undefined);
  expect(await ledger.row("4711")).toMatchObject({
    exists: true,
    fingerprint: "listed",
    watermark: "order 6",
  });
  expect((await stage("order 7", "five")).result).toBe("staged");
  expect(await redis.exists(keys.ledgerForgotten)).toBe(0);
});

it("watermarks that a crash left behind are taken over later, into rows that were proven since", async () => {
  await settleFirst();
  await redis.rename(keys.ledger, keys.ledgerForgotten);
  await ledger.writePage([["4711", row("listed")]], undefined);
  await ledger.keepWatermarks();
  expect(await ledger.row("4711")).toMatchObject({ fingerprint: "listed", watermark: "order 5" });
});

it("a listing that began before the ledger was forgotten cannot end the new warm-up", async () => {
  expect(await ledger.writePage([["1", row("a")]], "page 2")).toBe(true);
  await ledger.forgetAll();
  expect(await ledger.writePage([["2", row("b")]], undefined, "page 2")).toBe(false);
  expect((await ledger.warmUp()).state).toBe("new");
  expect(await ledger.row("2")).toBeUndefined();
});

it("what the service was asked before the ledger was forgotten does not become a row of the new one", async () => {
  await settleFirst();
  const askedAt = Date.now() - 60_000;
  await ledger.forgetAll();
  const old = { ...row("old"), provedAt: askedAt };
  // The first page of a list, and a comparison's.
  expect(await ledger.writePage([["4711", old]], undefined, undefined, askedAt)).toBe(false);
  expect(await ledger.heal([["4712", old]], askedAt)).toBe(0);
  expect(await ledger.row("4712")).toBeUndefined();
  expect((await ledger.warmUp()).state).toBe("new");
  expect(await ledger.writePage([["4711", row("listed")]], undefined)).toBe(true);
  expect(await ledger.row("4711")).toMatchObject({ fingerprint: "listed", watermark: "order 5" });
  expect(await ledger.heal([["4712", row("listed")]], Date.now())).toBe(1);
});

it("a request that fails after the ledger was forgotten does not bring the old row back", async () => {
  await settleFirst();
  await stage("order 6", "six");
  const taken = await staged.take("4711", "me", 60_000);
  if (taken.kind !== "taken") throw new Error("it was not taken");
  await ledger.forgetAll();
  await redis.del(keys.ledger); // before the watermarks were taken over
  await staged.settle(taken.state, { row: "before", finished: false });
  expect(await ledger.row("4711")).toBeUndefined();
});

it("one row is forgotten, but not while a request is under way", async () => {
  await settleFirst();
  await stage("order 6", "six");
  const taken = await staged.take("4711", "me", 60_000);
  if (taken.kind !== "taken") throw new Error("it was not taken");
  expect(await ledger.forgetRow("4711")).toBe(false);
  await staged.settle(taken.state, { row: row("six", "order 6"), finished: true });
  expect(await ledger.forgetRow("4711")).toBe(true);
  expect((await stage("order 7", "six")).result).toBe("staged");
});

it("a ledger that somebody deleted is not believed, although a request under way has written a row since", async () => {
  const listed = ["4711", "4712", "4713"].map((code) => [code, row(code)] as const);
  await ledger.writePage(listed, undefined);
  expect((await stage("order 1", "4711")).result).toBe("unchanged");
  await redis.hdel(keys.ledger, "4712", "4713");
  const deletion = { ...deleted("4712"), order: "order 2" };
  expect((await staged.stage(deletion)).result).toBe("staged");
  expect(await ledger.warmUp()).toMatchObject({ state: "new", lost: true, relations: 0 });
  await ledger.writePage(listed, undefined);
  expect(await ledger.warmUp()).toMatchObject({ state: "done", lost: false, relations: 3 });

  await redis.del(keys.ledger);
  const taken = await staged.take("4712", "me", 60_000);
  if (taken.kind !== "taken") throw new Error("it was not taken");
  expect(taken.state).toMatchObject({ row: undefined, warm: false });
  expect(await ledger.warmUp()).toMatchObject({ state: "new", lost: true });
});

/** Lets Redis go back to a copy of the age. */
async function goBackTo(copy: Record<string, string>): Promise<void> {
  await redis.del(keys.age);
  await redis.hset(keys.age, copy);
}

it("the age: another process counting up is no loss; an older copy is one until it is noted", async () => {
  const mine = new StateAge(redis, keys);
  const other = new StateAge(redis, keys);
  expect(await mine.wentBackwards()).toBe(false);
  expect(await other.wentBackwards()).toBe(false);
  expect(await mine.wentBackwards()).toBe(false);
  const copy = await redis.hgetall(keys.age);
  await Promise.all(Array.from({ length: 20 }, () => mine.count()));
  await goBackTo(copy);
  await mine.count();
  expect(await mine.wentBackwards()).toBe(true);
  expect(await mine.wentBackwards()).toBe(true);
  await mine.note(7);
  expect(await mine.wentBackwards()).toBe(false);
  expect(await readOne(redis, mine.wentBackwardsAt())).toBe(7);
});

it("the age: a process notices that it has lost one count, also when others have counted since", async () => {
  const mine = new StateAge(redis, keys);
  const others = [new StateAge(redis, keys), new StateAge(redis, keys)];
  for (const one of [...others, mine]) expect(await one.wentBackwards()).toBe(false);
  const copy = await redis.hgetall(keys.age);
  await mine.count();
  await goBackTo(copy);
  for (const other of others) expect(await other.wentBackwards()).toBe(false);
  expect(await mine.wentBackwards()).toBe(true);
});

it("the age: a Redis that was emptied has lost everything, for each of the processes", async () => {
  const mine = new StateAge(redis, keys);
  const other = new StateAge(redis, keys);
  for (let n = 0; n < 5; n += 1) await mine.count();
  expect(await other.wentBackwards()).toBe(false);
  await redis.del(keys.age);
  expect(await mine.wentBackwards()).toBe(true);
  expect(await other.wentBackwards()).toBe(true);
  // One that starts now has met nothing before.
  expect(await new StateAge(redis, keys).wentBackwards()).toBe(false);
  await mine.note(1);
  expect(await mine.wentBackwards()).toBe(false);
});
