/** The guard over terminations: its count, what it holds, and what a person decides. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import { Resealing } from "../../../src/core/state/reseal.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { TerminationGuard, terminationLimit } from "../../../src/core/state/termination-guard.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { steppingRedis } from "../../support/shifted-clock.ts";
import {
  DELETED,
  ordersAt,
  rowAt,
  STATE_KEY,
  stateOf as anyStateOf,
  storesOf,
  takeFrom,
  type TestStores,
} from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const DAY_MS = 86_400_000;

let stores: TestStores;
let keys: Keys;
let staged: TestStores["staged"];
let held: TestStores["held"];
let guard: TerminationGuard;

beforeEach(() => {
  stores = storesOf(redis);
  ({ keys, staged, held } = stores);
  guard = guardWith(2);
});

const guardWith = (limit: number | string, connection = redis) =>
  new TerminationGuard(connection, keys, { limit: String(limit), windowMs: DAY_MS });

const unapproved = (crmCode: string) => ({ crmCode, approved: false });
const admits = (one: TerminationGuard, crmCode: string, when: "now" | "next") =>
  one.admit(unapproved(crmCode), when);

const counted = () => redis.zcard(keys.terminations);
const heldCodes = async () => (await redis.zrange(keys.heldTerminations, "0", "-1")).toSorted();
const waiting = () => redis.zrange(keys.line("live"), "0", "-1");

const stateOf = (crmCode: string, order: string, more: Partial<StateToStage> = {}) =>
  anyStateOf(crmCode, order, {
    payload: `{"firstName":"${order}"}`,
    event: `{"subject":"contact/${crmCode}"}`,
    ...more,
  });
const deletion = DELETED;
const take = (crmCode: string) => takeFrom(stores, crmCode);
const rowOf = (order: string, terminated = false) => rowAt(order, `f-${order}`, { terminated });

/** The relation exists, with the fields of this order. */
async function prove(crmCode: string, order = "1", terminated = false): Promise<void> {
  await staged.stage(stateOf(crmCode, order));
  await staged.settle(await take(crmCode), { row: rowOf(order, terminated), finished: true });
}

/** Stages a deletion and lets the guard hold it. */
async function hold(crmCode: string, order = "2"): Promise<void> {
  await staged.stage(stateOf(crmCode, order, deletion));
  const state = await take(crmCode);
  expect(await guardWith(0).admit({ crmCode, approved: false }, "next")).toBe(false);
  await staged.settle(state, { row: "before", finished: false, held: { why: "limit" } });
}

describe("a share", () => {
  const text = "100,10%";

  it.each([
    [text, 5, 3],
    [text, 200, 20],
    [text, 5000, 100],
    ["2,10%", 5, 2],
    ["10%", 5000, 500],
    ["7", 5, 7],
    ["unlimited", 5, Number.POSITIVE_INFINITY],
  ])("%s of %d active relations allows %d", (limit, active, expected) => {
    expect(terminationLimit(limit, active)).toBe(expected);
  });

  it("is one of the relations that were active before the window", async () => {
    for (let n = 0; n < 50; n += 1) await prove(`active-${n}`);
    for (let n = 0; n < 50; n += 1) await prove(`ended-${n}`, "1", true);
    // As the daily sweep counts them.
    await stores.ledger.forgetAbsent(0);
    expect(await readOne(redis, guard.active())).toBe(50);
    const shared = guardWith(text);
    for (let n = 0; n < 5; n += 1) expect(await admits(shared, `active-${n}`, "now")).toBe(true);
    expect(await admits(shared, "active-5", "now")).toBe(false);
  });
});

describe("the count", () => {
  it("is one per relation, however often its termination is tried or its event repeated", async () => {
    const tries = Array.from({ length: 1000 }, () => admits(guard, "1", "now"));
    expect(new Set(await Promise.all(tries))).toEqual(new Set([true]));
    expect(await admits(guard, "2", "now")).toBe(true);
    expect(await admits(guard, "3", "now")).toBe(false);
    expect(await admits(guard, "1", "now")).toBe(true);
  });

  it("is shared by all processes, and exact", async () => {
    const others = [redis.duplicate(), redis.duplicate(), redis.duplicate()];
    const asked = others.flatMap((connection, process) => {
      const one = guardWith(20, connection);
      return Array.from({ length: 70 }, (_, n) => admits(one, `r${process}-${n}`, "now"));
    });
    const admitted = (await Promise.all(asked)).filter((isAdmitted) => isAdmitted);
    expect(admitted).toHaveLength(20);
    for (const connection of others) connection.disconnect();
  });

  it("goes by Redis' clock, and forgets a termination after the window", async (context) => {
    await using stepping = await steppingRedis(context);
    const own = guardWith(2, stepping.client);
    const now = Date.now();
    stepping.stopClock(now);
    await admits(own, "1", "now");
    stepping.stopClock(now + DAY_MS - 1);
    await admits(own, "2", "now");
    expect(await admits(own, "3", "now")).toBe(false);
    stepping.stopClock(now + DAY_MS);
    expect(await admits(own, "3", "now")).toBe(true);
    expect(await admits(own, "4", "now")).toBe(false);
  });

  it("does not grow by relations that are only read", async () => {
    for (const crmCode of ["1", "2", "3"]) expect(await admits(guard, crmCode, "next")).toBe(true);
    expect(await counted()).toBe(0);
  });

  it("with 0 admits nothing; without a limit admits everything and remembers nothing", async () => {
    expect(await admits(guardWith(0), "1", "now")).toBe(false);
    expect(await admits(guardWith("unlimited"), "1", "now")).toBe(true);
    expect(await counted()).toBe(0);
  });

  it.for([
    ["was carried out", { row: rowOf("2", true), finished: true }, 1],
    ["may have been carried out", { row: "unknown", finished: false }, 1],
    ["may yet be carried out", { row: "before", finished: false, openMs: 0 }, 1],
    ["was rejected", { row: "before", finished: true }, 0],
    ["was throttled", { row: "before", finished: false }, 0],
    ["found no relation", { row: { ...rowOf("2"), exists: false }, finished: true }, 0],
  ] as const)("keeps or gives back the place of one that %s", async ([, how, expected]) => {
    await prove("1");
    await staged.stage(stateOf("1", "2", deletion));
    const state = await take("1");
    await admits(guard, "1", "now");
    await staged.settle(state, how);
    expect(await counted()).toBe(expected);
  });

  it("gives the place of a relation back that is active again", async () => {
    await admits(guard, "1", "now");
    await prove("1", "1", true);
    expect(await counted()).toBe(1);
    await prove("1", "2");
    expect(await counted()).toBe(0);
  });

  it("survives a Redis that lost what this process has sent", async () => {
    await admits(guard, "1", "now");
    await admits(guard, "2", "now");
    await redis.del(keys.terminations);
    await guard.restore();
    expect(await admits(guard, "3", "now")).toBe(false);
  });

  it("is kept when the ledger is forgotten", async () => {
    await prove("1", "1", true);
    await admits(guard, "1", "now");
    await stores.ledger.forgetAll();
    expect(await counted()).toBe(1);
  });
});

describe("a held termination", () => {
  beforeEach(async () => {
    await prove("1");
    await hold("1");
  });

  it("waits for a person: no worker takes it, the sweep does not see it, its row is as before", async () => {
    expect(await staged.take("1", "me", 1000)).toEqual({ kind: "nothing" });
    expect(await waiting()).toEqual([]);
    expect(await heldCodes()).toEqual(["1"]);
    expect(await stores.ledger.row("1")).toMatchObject({ uncertain: false });
    expect(await held.find("1")).toMatchObject({ lane: "live" });
  });

  it("counts among the others by why it is held", async () => {
    for (const [crmCode, why] of [
      ["2", "emptied"],
      ["3", "limit"],
    ] as const) {
      await prove(crmCode);
      await staged.stage(stateOf(crmCode, "2"));
      const state = await take(crmCode);
      await staged.settle(state, { row: "before", finished: false, held: { why } });
    }
    expect(await held.reasons()).toEqual({ emptied: 1, limit: 2 });
    await held.drop("3");
    expect(await held.reasons()).toEqual({ emptied: 1, limit: 1 });
  });

  it("stays held when its deletion is repeated", async () => {
    const again = await staged.stage(stateOf("1", "3", deletion));
    expect(again).toEqual({ result: "held", coalesced: true });
    expect(await staged.take("1", "me", 1000)).toEqual({ kind: "nothing" });
    expect(await waiting()).toEqual([]);
    expect(await heldCodes()).toEqual(["1"]);
  });

  it.for([
    ["an update", { status: "mapped" }],
    ["a restoration", { status: "active", payload: `{"firstName":"new"}` }],
  ] as const)("is replaced by %s that is newer, which gets a job", async ([, extra]) => {
    const newer = await staged.stage(stateOf("1", "3", extra));
    expect(newer).toMatchObject({ result: "staged", coalesced: true });
    expect(await heldCodes()).toEqual([]);
    expect(await waiting()).toEqual(["1"]);
    expect(await take("1")).toMatchObject({
      orders: ordersAt("3", { is: extra.status }),
      status: extra.status,
    });
    expect(await held.release("1")).toBeUndefined();
    expect(await held.drop("1")).toBe(false);
  });

  it("ends without a request when the newer event changes nothing", async () => {
    const restored = { ...deletion, status: "active" } as const;
    expect(await staged.stage(stateOf("1", "3", restored))).toMatchObject({ result: "unchanged" });
    expect(await heldCodes()).toEqual([]);
    expect(await waiting()).toEqual([]);
  });

  it("takes the fields of an older event, and supersedes older ones", async () => {
    const event = `{"subject":"contact/1","type":"crm.record.updated"}`;
    expect(await staged.stage(stateOf("1", "1.5", { event }))).toMatchObject({ result: "held" });
    expect(await staged.stage(stateOf("1", "1.4"))).toMatchObject({ result: "superseded" });
    // A person decides about the deletion.
    expect(await held.find("1")).toMatchObject({ event: `{"subject":"contact/1"}` });
    await held.release("1");
    expect(await take("1")).toMatchObject({
      orders: { fields: "1.5", status: "2", is: "terminated" },
      payload: `{"firstName":"1.5"}`,
      event,
    });
  });

  it("that is released is sent in its place, and is not held again", async () => {
    expect(await held.release("1")).toBe("live");
    expect(await held.release("1")).toBeUndefined();
    expect(await heldCodes()).toEqual([]);
    expect(await waiting()).toEqual(["1"]);
    expect(await take("1")).toMatchObject({ status: "terminated", change: { approved: true } });
    for (const when of ["next", "now"] as const) {
      expect(await guardWith(0).admit({ crmCode: "1", approved: true }, when)).toBe(true);
    }
    expect(await counted()).toBe(0);
  });

  it("whose fields were read before it was held reads them again", async () => {
    await staged.stage(stateOf("2", "2", deletion));
    const read = { row: rowOf("1"), finished: false, payload: "read" } as const;
    await staged.settle(await take("2"), read);
    const state = await take("2");
    expect(state.payload).toBe("read");
    await staged.settle(state, { row: "before", finished: false, held: { why: "limit" } });
    await held.release("2");
    expect((await take("2")).payload).toBeUndefined();
  });

  it("stays approved when its deletion is repeated, until its record is restored", async () => {
    await held.release("1");
    await staged.stage(stateOf("1", "3", deletion));
    expect((await staged.waiting(["1"]))[0]?.approved).toBe(true);
    await staged.stage(stateOf("1", "4"));
    await staged.stage(stateOf("1", "5", deletion));
    const state = await take("1");
    expect(state.status).toBe("terminated");
    expect(state.change.approved).toBeUndefined();
  });

  it("that is dropped leaves nothing, and its record goes on", async () => {
    expect(await held.drop("1")).toBe(true);
    expect(await redis.exists(keys.staged("1"))).toBe(0);
    expect(await heldCodes()).toEqual([]);
    expect(await staged.stage(stateOf("1", "1.5"))).toMatchObject({ result: "staged" });
  });

  it("and a dead letter of a newer event of its record do not disturb each other", async () => {
    const { deadLetters: dead } = stores;
    const letter = { reason: "invalid", problems: [], event: "{}", order: "3", at: 1 } as const;
    expect(await dead.store(createDeadLetter({ crmCode: "1" }, letter))).toBe("stored");
    expect(await heldCodes()).toEqual(["1"]);
    await held.release("1");
    expect(await take("1")).toMatchObject({ status: "terminated" });
    expect(await dead.count()).toBe(1);
  });

  it("is kept when the ledger is forgotten", async () => {
    await stores.ledger.forgetAll();
    expect(await heldCodes()).toEqual(["1"]);
    expect(await held.release("1")).toBe("live");
  });

  it("is sealed, and sealed again with a new key", async () => {
    const stored = () => redis.hget(keys.staged("1"), "state");
    expect(await stored()).not.toContain("contact/1");
    const newKey = Buffer.alloc(32, 8);
    const both = storesOf(redis, { keys, sealing: new Sealing([newKey, STATE_KEY]) });
    await new Resealing(both.records).pass([], async () => {});
    const after = storesOf(redis, { keys, sealing: new Sealing([newKey]) });
    expect(await after.held.find("1")).toMatchObject({ event: `{"subject":"contact/1"}` });
    expect(await stored()).not.toContain("contact/1");
  });

  it("is dropped when Redis goes back and something newer was settled before", async () => {
    const { settledLately: lately } = stores;
    lately.note({ crmCode: "1", orders: ordersAt("3") }, { row: rowAt("3"), finished: true }, 0);
    expect(await lately.restore()).toBe(1);
    expect(await heldCodes()).toEqual([]);
  });
});

it("a newer state that came while one was to be held is sent, and nothing is held", async () => {
  await prove("1");
  await staged.stage(stateOf("1", "2", deletion));
  const state = await take("1");
  await staged.stage(stateOf("1", "3"));
  expect(
    await staged.settle(state, { row: "before", finished: false, held: { why: "limit" } }),
  ).toBe("more");
  expect(await heldCodes()).toEqual([]);
  expect(await take("1")).toMatchObject({ orders: ordersAt("3") });
});

it("all held terminations are listed, over several pages", async () => {
  const codes = Array.from({ length: 450 }, (_, n) => `r${n}`);
  await Promise.all(codes.map((crmCode) => hold(crmCode)));
  const found: string[] = [];
  for await (const { crmCode } of held.all()) found.push(crmCode);
  expect(found.toSorted()).toEqual(codes.toSorted());
});
