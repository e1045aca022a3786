import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { DeadLetters } from "../../../src/state/dead-letters.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { rowWithoutProof, type LedgerRow } from "../../../src/sync/ledger-row.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import type { DeadLetter } from "../../../src/sync/dead-letter.ts";
import type { StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let staged: StagedStates;
let ledger: Ledger;
let dead: DeadLetters;

beforeEach(async () => {
  keys = keysOf(uniquePrefix());
  const sealing = new Sealing([Buffer.alloc(32, 7)]);
  staged = new StagedStates(redis, keys, sealing);
  ledger = new Ledger(redis, keys);
  dead = new DeadLetters(redis, keys, sealing);
});

const change = (order: string, extra: Partial<StateToStage> = {}): StateToStage => ({
  crmCode: "4711",
  eventKey: `key-${order}`,
  order,
  payload: `payload ${order}`,
  fingerprint: `f-${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1000,
  event: `event ${order}`,
  ...extra,
});
const stage = (state: StateToStage) => staged.stage(state);

async function take(token = "me", holdMs = 60_000): Promise<TakenState> {
  const taken = await staged.take("4711", token, holdMs);
  if (taken.kind !== "taken") throw new Error(`expected to take it, got ${taken.kind}`);
  return taken.state;
}

const rowFor = (state: { order: string }, fingerprint: string): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint,
  terminated: false,
  variant: "Person",
  watermark: state.order,
  provedAt: 1,
});

/** Makes the ledger say: on the service, with fingerprint f-<order>. */
async function sync(order: string): Promise<void> {
  await stage(change(order));
  const state = await take();
  await staged.settle(state, { row: rowFor(state, `f-${order}`), finished: true });
}

const unsynced = async () => redis.zrange(keys.unsynced("live"), "0", "-1", "WITHSCORES");
/** Redis' clock, ms. */
async function redisNow(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/** Resolves once Redis' clock is later than this. */
const redisAfter = (at: number) =>
  waitFor(async () => (await redisNow()) > at, { what: "a later millisecond" });

const ledgerText = async () => redis.hget(keys.ledger, "4711");

describe("kept fields", () => {
  const KEEPS = { Person: { branch: "always" } } as const;
  const KEPT = JSON.stringify({ branch: ["by hand"] });

  it("reach the worker that takes a state, also after Redis has lost them", async () => {
    await stage(change("1"));
    expect((await take("a", 0)).keeps).toEqual({});
    await stage(change("2", { keeps: KEEPS }));
    expect((await take("b", 0)).keeps).toEqual(KEEPS);
    // A process with another mapping changes them only when it starts.
    await stage(change("3", { keeps: {} }));
    expect((await take("c", 0)).keeps).toEqual(KEEPS);
  });

  it("what the service has in them is sealed, and for one run alone", async () => {
    await stage(change("1", { keeps: KEEPS }));
    const first = await take("a");
    expect(first.kept).toBeUndefined();
    const row = rowFor({ order: "" }, "f");
    await staged.settle(first, { row, finished: false, kept: KEPT, counts: ["reads"] });
    expect(JSON.stringify(await redis.hgetall(keys.staged("4711")))).not.toContain("by hand");
    // A newer state needs the same.
    await stage(change("2"));
    const second = await take("b", 0);
    expect(second.kept).toBe(KEPT);
    // The worker dies, and may have sent it: the next one must read again.
    expect((await take("c", 0)).kept).toBeUndefined();
    await staged.settle(await take("d"), { row: "before", finished: false });
    expect((await take("e", 0)).kept).toBeUndefined();
  });

  it("kept fields that were read a minute ago are read again, once", async () => {
    await stage(change("1", { keeps: KEEPS }));
    const row = rowFor({ order: "" }, "f");
    const old = async () => redis.hset(keys.staged("4711"), "kt", Date.now() - 61_000);
    for (const kept of [undefined, KEPT]) {
      const state = await take("a");
      await staged.settle(state, { row, finished: false, kept: KEPT, counts: ["reads"] });
      await old();
      expect((await take("b", 0)).kept).toBe(kept);
    }
  });
});

describe("staging", () => {
  it("keeps the newest state, in whatever order events arrive", async () => {
    expect(await stage(change("2"))).toMatchObject({ result: "staged", coalesced: false });
    expect(await stage(change("1"))).toMatchObject({ result: "superseded" });
    expect(await stage(change("3"))).toMatchObject({ result: "staged", coalesced: true });
    expect(await take()).toMatchObject({ order: "3", payload: "payload 3", event: "event 3" });
  });

  it("orders by bytes, whatever the server's locale", async () => {
    await stage(change("t\tB\t1"));
    expect((await stage(change("t\ta\t1"))).result).toBe("staged");
    expect((await stage(change("t\tB\t2"))).result).toBe("superseded");
  });

  it("processes one event once within seven days", async () => {
    await stage(change("1"));
    expect((await stage(change("9", { eventKey: "key-1" }))).result).toBe("duplicate");
    expect(await staged.seen(["key-1", "key-2"])).toEqual(new Set(["key-1"]));
    await staged.forgetEvent("key-1");
    expect(await staged.seen(["key-1"])).toEqual(new Set());
  });

  it("keeps time and arrival of the first unsynced event through coalescing", async () => {
    const before = await redisNow();
    await stage(change("1", { time: 1000 }));
    const first = await unsynced();
    expect(Number(first[1])).toBeGreaterThanOrEqual(before);
    await redisAfter(Number(first[1]));
    await stage(change("2", { time: 5000 }));
    expect((await take()).firstTime).toBe(1000);
    expect(await unsynced()).toEqual(first);
  });

  it("moves a bulk record into the live lane, and never back", async () => {
    await stage(change("1", { lane: "bulk" }));
    expect(await stage(change("2", { lane: "live" }))).toMatchObject({ expedite: true });
    expect(await stage(change("3", { lane: "bulk" }))).toMatchObject({ expedite: false });
    expect((await take()).lane).toBe("live");
    expect(await redis.zcard(keys.unsynced("bulk"))).toBe(0);
  });

  it("encrypts payload and event when there is a key", async () => {
    await stage(change("1"));
    const hash = await redis.hgetall(keys.staged("4711"));
    expect(JSON.stringify(hash)).not.toMatch(/payload 1|event 1/);
  });
});

describe("a state that the ledger proves needs no request", () => {
  it("settles a state that the service already has", async () => {
    await sync("1");
    expect((await stage(change("2", { fingerprint: "f-1" }))).result).toBe("unchanged");
    expect(await staged.take("4711", "me", 1000)).toEqual({ kind: "nothing" });
    expect((await stage(change("1.5"))).result).toBe("superseded");
  });

  it("settles a staged change that a newer one reverts", async () => {
    await sync("1");
    await stage(change("2"));
    expect(await stage(change("3", { fingerprint: "f-1" }))).toMatchObject({
      result: "unchanged",
      coalesced: true,
    });
    expect(await unsynced()).toEqual([]);
  });

  it("settles the deletion of an absent relation, when the ledger is warm", async () => {
    const deletion = change("1", { status: "terminated", payload: undefined });
    expect((await stage(deletion)).result).toBe("staged");
    await ledger.writePage([], undefined);
    const second = { ...deletion, crmCode: "4712", eventKey: "other" };
    expect((await stage(second)).result).toBe("nothing_to_terminate");
  });

  it("no page hides a deletion that an empty list made superfluous", async () => {
    await ledger.writePage([], undefined);
    const deletion = change("1", { status: "terminated", payload: undefined });
    expect((await stage(deletion)).result).toBe("nothing_to_terminate");
    const page = [["4711", rowFor({ order: "" }, "f-0")]] as const;
    expect(await ledger.writePage(page, undefined)).toBe(false);
    // Also when the ledger is forgotten meanwhile.
    expect(await ledger.forgetRow("4711")).toBe(true);
    expect(await ledger.doubtAssumed(["4711", "4712"])).toEqual(["4711"]);
    expect(await ledger.writePage(page, undefined)).toBe(true);
    expect(await ledger.row("4711")).toMatchObject({ exists: true, watermark: "1" });
    expect(await ledger.doubtAssumed(["4711"])).toEqual([]);
  });

  it("no comparison hides such a deletion either, whether its list has the relation or not", async () => {
    await ledger.writePage([], undefined);
    const deletion = change("1", { status: "terminated", payload: undefined });
    expect((await stage(deletion)).result).toBe("nothing_to_terminate");
    let askedAt = Date.now() + 60_000;
    for (const listed of [rowWithoutProof(false), rowFor({ order: "" }, "f-0")]) {
      askedAt += 1;
      await ledger.heal([["4711", { ...listed, provedAt: askedAt }]], askedAt);
      expect(await ledger.row("4711")).toMatchObject({ exists: undefined, watermark: "1" });
    }
    expect(await ledger.doubtAssumed(["4711"])).toEqual(["4711"]);
  });

  it("settles a creation that is deleted before it was sent", async () => {
    await ledger.writePage([], undefined);
    await stage(change("1"));
    const deletion = change("2", { status: "terminated", payload: undefined });
    expect(await stage(deletion)).toMatchObject({
      result: "nothing_to_terminate",
      coalesced: true,
    });
    expect(await staged.take("4711", "me", 1000)).toEqual({ kind: "nothing" });
  });

  it("stages while a request is under way", async () => {
    await sync("1");
    await stage(change("2"));
    await take();
    expect((await stage(change("3", { fingerprint: "f-1" }))).result).toBe("staged");
  });

  it("stages after a crash between take and settle", async () => {
    await sync("1");
    await stage(change("2"));
    await take("crashed", 0);
    expect((await stage(change("3", { fingerprint: "f-1" }))).result).toBe("staged");
    const again = await take("next");
    expect(again.row).toMatchObject({ exists: true, uncertain: true });
  });
});

describe("taking", () => {
  it("lets one worker hold a record at a time", async () => {
    await stage(change("1"));
    await take("a");
    expect((await staged.take("4711", "b", 1000)).kind).toBe("busy");
  });

  it("tells whether the ledger is warm", async () => {
    await stage(change("1"));
    expect(await take("a", 0)).toMatchObject({ warm: false, row: undefined });
    await ledger.writePage([["other", rowFor({ order: "" }, "f-0")]], undefined);
    await stage(change("1", { crmCode: "new", eventKey: "k" }));
    expect(await staged.take("new", "a", 1000)).toMatchObject({ state: { warm: true } });
  });

  it("does not believe an empty list that came after the deletion was staged", async () => {
    await stage(change("1", { status: "terminated", payload: undefined }));
    await ledger.writePage([], undefined);
    const state = await take();
    expect(state).toMatchObject({ warm: false, row: undefined });
    await staged.settle(state, { row: "before", finished: false });
    expect(await ledger.row("4711")).toMatchObject({ exists: undefined });
  });

  it("of a record that was created again, no deletion is made up for after an empty list", async () => {
    await ledger.writePage([], undefined);
    const deletion = change("1", { status: "terminated", payload: undefined });
    expect((await stage(deletion)).result).toBe("nothing_to_terminate");
    await stage(change("2"));
    const state = await take();
    expect(state.row).toMatchObject({ exists: undefined, watermark: "1" });
    // Its request had no answer, and the ledger is forgotten and listed again.
    await staged.settle(state, { row: "uncertain", finished: false });
    await ledger.forgetAll();
    expect(await ledger.row("4711")).toMatchObject({ exists: undefined, watermark: "2" });
    expect(await ledger.doubtAssumed(["4711"])).toEqual([]);
  });

  it("gives a deletion without a record the staged payload", async () => {
    await sync("1");
    await stage(change("2"));
    await stage(change("3", { status: "terminated", payload: undefined, fingerprint: undefined }));
    expect(await take()).toMatchObject({ status: "terminated", payload: "payload 2" });
  });
});

describe("settling", () => {
  it("removes the proven state and moves the watermark", async () => {
    await sync("2");
    expect(await unsynced()).toEqual([]);
    expect(await redis.exists(keys.staged("4711"))).toBe(0);
    expect((await stage(change("1"))).result).toBe("superseded");
  });

  it("keeps a newer state that came meanwhile, with its own first time", async () => {
    await stage(change("1", { time: 1000 }));
    const state = await take();
    await redisAfter(Number((await unsynced())[1]));
    const second = await redisNow();
    expect(await stage(change("2", { time: 2000 }))).toMatchObject({ coalesced: false });
    await redisAfter(await redisNow());
    const third = await redisNow();
    expect(await stage(change("3", { time: 3000 }))).toMatchObject({ coalesced: true });
    const end = await staged.settle(state, { row: rowFor(state, "f-1"), finished: true });
    expect(end).toBe("more");
    expect(await take()).toMatchObject({ order: "3", firstTime: 2000 });
    const since = Number((await unsynced())[1]);
    expect(since).toBeGreaterThanOrEqual(second);
    expect(since).toBeLessThan(third);
  });

  it("keeps the first time when the first state was not sent", async () => {
    await stage(change("1", { time: 1000 }));
    const state = await take();
    await stage(change("2", { time: 2000 }));
    await staged.settle(state, { row: "before", finished: false, counts: ["tries"] });
    expect(await take()).toMatchObject({ order: "2", firstTime: 1000, tries: 1 });
  });

  it("restores the ledger row when nothing can have been applied", async () => {
    await sync("1");
    const before = await ledgerText();
    await stage(change("2"));
    await staged.settle(await take(), { row: "before", finished: false });
    expect(await ledgerText()).toBe(before);
  });

  it("holds a record whose request may still arrive", async () => {
    await stage(change("1"));
    await staged.settle(await take(), { row: "uncertain", finished: false, holdMs: 5000 });
    expect((await staged.take("4711", "me", 1000)).kind).toBe("busy");
  });

  it("holds a finished record for as long as its request may arrive, and then forgets it", async () => {
    await stage(change("1"));
    const state = await take();
    await staged.settle(state, { row: "uncertain", finished: true, holdMs: 5000 });
    expect(await redis.pttl(keys.staged("4711"))).toBeGreaterThan(0);
    await stage(change("2"));
    expect(await redis.pttl(keys.staged("4711"))).toBe(-1);
    expect((await staged.take("4711", "other", 1000)).kind).toBe("busy");
  });

  it.each(["live", "bulk"] as const)("a %s change that is finished waits no more", async (lane) => {
    await stage(change("1", { lane }));
    expect(await redis.zcard(keys.unsynced(lane))).toBe(1);
    const state = await take();
    await staged.settle(state, { row: rowFor(state, "f-1"), finished: true });
    expect(await redis.zcard(keys.unsynced(lane))).toBe(0);
  });

  it("keeps a fetched payload for the state that had none, and only for that state", async () => {
    await ledger.writePage([["4711", rowFor({ order: "" }, "f-0")]], undefined);
    await stage(change("1", { status: "terminated", payload: undefined }));
    const state = await take();
    await staged.settle(state, {
      row: rowFor({ order: "" }, "f-0"),
      finished: false,
      payload: "had",
    });
    expect((await take()).payload).toBe("had");
    await stage(change("2"));
    expect((await take("me")).payload).toBe("payload 2");
  });

  it("reports `lost` when another worker has taken the record over", async () => {
    await stage(change("1"));
    const first = await take("first", 0);
    await take("second");
    expect(await staged.settle(first, { row: rowFor(first, "f-1"), finished: true })).toBe("lost");
    expect(await redis.exists(keys.staged("4711"))).toBe(1);
  });
});

describe("dead letters", () => {
  const deadLetter = (order: string): DeadLetter => ({
    id: "c:4711",
    reason: "invalid",
    problems: [],
    event: "secret",
    source: "/crm",
    crmCode: "4711",
    order,
    at: 5,
  });

  it("keeps one per record, counts, and is deleted by a newer event", async () => {
    expect(await dead.store(deadLetter("1"))).toBe("stored");
    expect(await dead.store(deadLetter("2"))).toBe("stored");
    expect(await dead.find("c:4711")).toMatchObject({ times: 2, order: "2", event: "secret" });
    expect(JSON.stringify(await redis.hgetall(keys.deadLetters))).not.toContain("secret");
    await stage(change("3"));
    expect(await dead.count()).toBe(0);
  });

  it("does not store a dead letter that is older than what is known", async () => {
    await sync("5");
    expect(await dead.store(deadLetter("4"))).toBe("superseded");
    await stage(change("7"));
    expect(await dead.store(deadLetter("6"))).toBe("superseded");
  });

  it("keeps the dead letter of a newer event when an older event comes late", async () => {
    await dead.store(deadLetter("2"));
    expect(await stage(change("1"))).toMatchObject({ result: "staged" });
    expect(await dead.count()).toBe(1);
  });
});

describe("warm-up", () => {
  it("never overwrites a newer row, and can be resumed", async () => {
    await sync("3");
    const known = await ledgerText();
    const listed = rowFor({ order: "" }, "f-listed");
    await ledger.writePage(
      [
        ["4711", listed],
        ["4712", listed],
      ],
      "next",
    );
    expect(await ledgerText()).toBe(known);
    expect(await ledger.warmUp()).toMatchObject({ state: "running", cursor: "next", relations: 2 });
    await ledger.writePage([], undefined, "next");
    expect(await ledger.warmUp()).toMatchObject({ state: "done", cursor: undefined });
  });

  it("lets one process warm the ledger at a time", async () => {
    expect(await ledger.claimWarmUp("a")).toBe(true);
    expect(await ledger.claimWarmUp("a")).toBe(true);
    expect(await ledger.claimWarmUp("b")).toBe(false);
    await ledger.releaseWarmUp("b");
    expect(await ledger.claimWarmUp("b")).toBe(false);
    await ledger.releaseWarmUp("a");
    expect(await ledger.claimWarmUp("b")).toBe(true);
  });
});

it.each(["live", "bulk"] as const)(
  "a %s change whose state is gone from Redis is told once, and waits no longer",
  async (lane) => {
    await stage(change("1", { lane }));
    await redis.del(keys.staged("4711"));
    expect(await staged.take("4711", "me", 1000)).toEqual({ kind: "lost" });
    expect(await redis.zcard(keys.unsynced(lane))).toBe(0);
    expect(await staged.take("4711", "me", 1000)).toEqual({ kind: "nothing" });
  },
);

it("a worker that has asked for a job takes its record only if it gets the job", async () => {
  await stage(change("1"));
  const lockKey = `${keys.ledger}:a-job:lock`;
  const job = { crmCode: "4711", lockKey };
  expect(await staged.takeWithJob(job, "me", 1000)).toBe(undefined);
  await redis.set(lockKey, "other");
  expect(await staged.takeWithJob(job, "me", 1000)).toBe(undefined);
  // The record is untouched: it is not held, and the ledger knows nothing of a request.
  expect(await redis.hget(keys.ledger, "4711")).toBe(null);
  await redis.set(lockKey, "me");
  expect(await staged.takeWithJob(job, "me", 60_000)).toMatchObject({ kind: "taken" });
  expect((await staged.take("4711", "other", 1000)).kind).toBe("busy");
});
