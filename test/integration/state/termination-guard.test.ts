/** The guard over terminations: its count, what it holds, and what a person decides. */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { takeTimeFrom } from "../../../src/ops/redis-script.ts";
import { DeadLetters } from "../../../src/state/dead-letters.ts";
import { HeldTerminations } from "../../../src/state/held-terminations.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { Resealing } from "../../../src/state/reseal.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { SettledLately } from "../../../src/state/settled-lately.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { TerminationGuard } from "../../../src/state/termination-guard.ts";
import { createDeadLetter } from "../../../src/sync/dead-letter.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());
afterEach(() => takeTimeFrom(() => undefined));

const DAY_MS = 86_400_000;
const SEALING = new Sealing([Buffer.alloc(32, 7)]);

let keys: Keys;
let staged: StagedStates;
let held: HeldTerminations;
let guard: TerminationGuard;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  staged = new StagedStates(redis, keys, SEALING);
  held = new HeldTerminations(redis, keys, SEALING);
  guard = guardWith(2);
});

const guardWith = (limit: number, connection = redis) =>
  new TerminationGuard(connection, keys, { limit, windowMs: DAY_MS });

const counted = () => redis.zcard(keys.terminations);
const heldCodes = async () => (await redis.zrange(keys.heldTerminations, "0", "-1")).toSorted();
const waiting = () => redis.zrange(keys.unsynced("live"), "0", "-1");

const stateOf = (
  crmCode: string,
  order: string,
  extra: Partial<StateToStage> = {},
): StateToStage => ({
  crmCode,
  eventKey: `${crmCode} ${order}`,
  order,
  payload: `{"firstName":"${order}"}`,
  fingerprint: `f-${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1000,
  event: `{"subject":"contact/${crmCode}"}`,
  ...extra,
});
const deletion = { payload: undefined, fingerprint: undefined, status: "terminated" } as const;

async function take(crmCode: string): Promise<TakenState> {
  const taken = await staged.take(crmCode, "me", 60_000);
  if (taken.kind !== "taken") throw new Error(`expected to take it, got ${taken.kind}`);
  return taken.state;
}

const rowOf = (order: string, terminated = false): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint: `f-${order}`,
  terminated,
  variant: "Person",
  watermark: order,
  provedAt: 1,
});

/** The relation exists, with the fields of this order. */
async function prove(crmCode: string, order = "1", terminated = false): Promise<void> {
  await staged.stage(stateOf(crmCode, order));
  await staged.settle(await take(crmCode), { row: rowOf(order, terminated), finished: true });
}

/** Stages a deletion and lets the guard hold it. */
async function hold(crmCode: string, order = "2"): Promise<void> {
  await staged.stage(stateOf(crmCode, order, deletion));
  const state = await take(crmCode);
  expect(await guardWith(0).admit(crmCode, "next")).toBe(false);
  await staged.settle(state, { row: "before", finished: false, held: true });
}

describe("the count", () => {
  it("is one per relation, however often its termination is tried or its event repeated", async () => {
    const tries = Array.from({ length: 1000 }, () => guard.admit("1", "now"));
    expect(new Set(await Promise.all(tries))).toEqual(new Set([true]));
    expect(await guard.admit("2", "now")).toBe(true);
    expect(await guard.admit("3", "now")).toBe(false);
    expect(await guard.admit("1", "now")).toBe(true);
  });

  it("is shared by all processes, and exact", async () => {
    const others = [redis.duplicate(), redis.duplicate(), redis.duplicate()];
    const asked = others.flatMap((connection, process) => {
      const one = guardWith(20, connection);
      return Array.from({ length: 70 }, (_, n) => one.admit(`r${process}-${n}`, "now"));
    });
    const admitted = (await Promise.all(asked)).filter((isAdmitted) => isAdmitted);
    expect(admitted).toHaveLength(20);
    for (const connection of others) connection.disconnect();
  });

  it("goes by the shared clock, and forgets a termination after the window", async () => {
    let now = 1_000_000;
    takeTimeFrom(() => now);
    await guard.admit("1", "now");
    now += DAY_MS - 1;
    await guard.admit("2", "now");
    expect(await guard.admit("3", "now")).toBe(false);
    now += 1;
    expect(await guard.admit("3", "now")).toBe(true);
    expect(await guard.admit("4", "now")).toBe(false);
  });

  it("does not grow by relations that are only read", async () => {
    for (const crmCode of ["1", "2", "3"]) expect(await guard.admit(crmCode, "next")).toBe(true);
    expect(await counted()).toBe(0);
  });

  it("with 0 admits nothing; without a limit admits everything and remembers nothing", async () => {
    expect(await guardWith(0).admit("1", "now")).toBe(false);
    expect(await guardWith(Number.POSITIVE_INFINITY).admit("1", "now")).toBe(true);
    expect(await counted()).toBe(0);
  });

  it.for([
    ["was carried out", { row: rowOf("2", true), finished: true }, 1],
    ["may have been carried out", { row: "uncertain", finished: false }, 1],
    ["may yet be carried out", { row: "before", finished: false, late: true }, 1],
    ["was rejected", { row: "before", finished: true }, 0],
    ["was throttled", { row: "before", finished: false }, 0],
    ["found no relation", { row: { ...rowOf("2"), exists: false }, finished: true }, 0],
  ] as const)("keeps or gives back the place of one that %s", async ([, how, expected]) => {
    await prove("1");
    await staged.stage(stateOf("1", "2", deletion));
    const state = await take("1");
    await guard.admit("1", "now");
    await staged.settle(state, how);
    expect(await counted()).toBe(expected);
  });

  it("gives the place of a relation back that is active again", async () => {
    await guard.admit("1", "now");
    await prove("1", "1", true);
    expect(await counted()).toBe(1);
    await prove("1", "2");
    expect(await counted()).toBe(0);
  });

  it("survives a Redis that lost what this process has sent", async () => {
    await guard.admit("1", "now");
    await guard.admit("2", "now");
    await redis.del(keys.terminations);
    await guard.restore();
    expect(await guard.admit("3", "now")).toBe(false);
  });

  it("is kept when the ledger is forgotten", async () => {
    await prove("1", "1", true);
    await guard.admit("1", "now");
    await new Ledger(redis, keys).forgetAll();
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
    expect(await redis.pttl(keys.staged("1"))).toBe(-1);
    expect(await new Ledger(redis, keys).row("1")).toMatchObject({ uncertain: false });
    expect(await held.find("1")).toMatchObject({ lane: "live" });
  });

  it("stays held when its deletion is repeated", async () => {
    const again = await staged.stage(stateOf("1", "3", deletion));
    expect(again).toEqual({ result: "held", coalesced: true, expedite: false });
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
    expect(await take("1")).toMatchObject({ order: "3", status: extra.status });
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
      order: "2",
      status: "terminated",
      payload: `{"firstName":"1.5"}`,
      event,
    });
  });

  it("that is released is sent in its place, and is not held again", async () => {
    expect(await held.release("1")).toBe("live");
    expect(await held.release("1")).toBeUndefined();
    expect(await heldCodes()).toEqual([]);
    expect(await waiting()).toEqual(["1"]);
    expect(await take("1")).toMatchObject({ order: "2", status: "terminated", tries: 0 });
    for (const when of ["next", "now"] as const) {
      expect(await guardWith(0).admit("1", when)).toBe(true);
    }
    expect(await counted()).toBe(0);
  });

  it("whose fields were read before it was held reads them again", async () => {
    await staged.stage(stateOf("2", "2", deletion));
    const read = { row: rowOf("1"), finished: false, payload: "read" } as const;
    await staged.settle(await take("2"), read);
    expect(await take("2")).toMatchObject({ payload: "read" });
    await staged.settle(await take("2"), { row: "before", finished: false, held: true });
    await held.release("2");
    expect((await take("2")).payload).toBeUndefined();
  });

  it("stays approved when its deletion is repeated, until its record is restored", async () => {
    await held.release("1");
    await staged.stage(stateOf("1", "3", deletion));
    expect(await guardWith(0).admit("1", "now")).toBe(true);
    await staged.stage(stateOf("1", "4"));
    await staged.stage(stateOf("1", "5", deletion));
    expect(await guardWith(0).admit("1", "now")).toBe(false);
  });

  it("that is dropped leaves nothing, and its record goes on", async () => {
    expect(await held.drop("1")).toBe(true);
    expect(await redis.exists(keys.staged("1"))).toBe(0);
    expect(await heldCodes()).toEqual([]);
    expect(await staged.stage(stateOf("1", "1.5"))).toMatchObject({ result: "staged" });
  });

  it("and a dead letter of a newer event of its record do not disturb each other", async () => {
    const dead = new DeadLetters(redis, keys, SEALING);
    const letter = { reason: "invalid", problems: [], event: "{}", order: "3", at: 1 } as const;
    expect(await dead.store(createDeadLetter({ crmCode: "1" }, letter))).toBe("stored");
    expect(await heldCodes()).toEqual(["1"]);
    await held.release("1");
    expect(await take("1")).toMatchObject({ status: "terminated" });
    expect(await dead.count()).toBe(1);
  });

  it("is kept when the ledger is forgotten", async () => {
    await new Ledger(redis, keys).forgetAll();
    expect(await heldCodes()).toEqual(["1"]);
    expect(await held.release("1")).toBe("live");
  });

  it("is sealed, and sealed again with a new key", async () => {
    const sealed = await redis.hgetBuffer(keys.staged("1"), "ev");
    expect(sealed?.toString("base64url", 1, 7)).toBe(SEALING.keyId);
    const after = new Sealing([Buffer.alloc(32, 8), Buffer.alloc(32, 7)]);
    await new Resealing(redis, keys, after).pass([], async () => {});
    const onlyNew = new HeldTerminations(redis, keys, new Sealing([Buffer.alloc(32, 8)]));
    expect(await onlyNew.find("1")).toMatchObject({ event: `{"subject":"contact/1"}` });
  });

  it("is dropped when Redis goes back and something newer was settled before", async () => {
    const lately = new SettledLately(redis, keys);
    lately.note({ crmCode: "1", order: "3", earlierFields: undefined });
    expect(await lately.restore()).toBe(1);
    expect(await heldCodes()).toEqual([]);
  });

  it("keeps its place when a program that does not know of it has staged something newer", async () => {
    await redis.hset(keys.staged("1"), "v", 99);
    expect(await held.find("1")).toBeUndefined();
    expect(await take("1")).toMatchObject({ order: "2" });
  });
});

it("a newer state that came while one was to be held is sent, and nothing is held", async () => {
  await prove("1");
  await staged.stage(stateOf("1", "2", deletion));
  const state = await take("1");
  await staged.stage(stateOf("1", "3"));
  expect(await staged.settle(state, { row: "before", finished: false, held: true })).toBe("more");
  expect(await heldCodes()).toEqual([]);
  expect(await take("1")).toMatchObject({ order: "3" });
});

it("all held terminations are listed, over several pages", async () => {
  const codes = Array.from({ length: 450 }, (_, n) => `r${n}`);
  await Promise.all(codes.map((crmCode) => hold(crmCode)));
  const found: string[] = [];
  for await (const { crmCode } of held.all()) found.push(crmCode);
  expect(found.toSorted()).toEqual(codes.toSorted());
});
