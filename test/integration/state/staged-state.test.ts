import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import type { DeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { rowWithoutProof } from "../../../src/core/sync/ledger-row.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import {
  DELETED,
  editStaged,
  listed,
  ordersAt,
  rowAt,
  stateOf,
  storesOf,
  takeFrom,
  type TestStores,
} from "../../support/stores-of.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let stores: TestStores;
beforeEach(() => {
  stores = storesOf(redis);
});

const change = (order: string, more: Partial<StateToStage> = {}) =>
  stateOf("4711", order, { eventKey: `key-${order}`, ...more });
const deletion = (order: string, more: Partial<StateToStage> = {}) =>
  change(order, { ...DELETED, ...more });
const stage = (state: StateToStage) => stores.staged.stage(state);
const take = (token = "me", holdMs = 60_000) => takeFrom(stores, "4711", token, holdMs);
const tryToTake = (crmCode = "4711", token = "other") => stores.staged.take(crmCode, token, 1000);

/** Makes the ledger say: on the service, with fingerprint f-<order>. */
async function sync(order: string): Promise<void> {
  await stage(change(order));
  await stores.staged.settle(await take(), { row: rowAt(order), finished: true });
}

/** Since when its change waits; 0: none does. */
const since = async () => (await stores.line.places(["4711"]))[0]?.since ?? 0;
/** Redis' clock, ms. */
async function redisNow(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/** Resolves once Redis' clock is later than this. */
const redisAfter = (at: number) =>
  waitFor(async () => (await redisNow()) > at, { what: "a later millisecond" });

/** What is proven: each change also teaches how often the record changes. */
const provenRow = async () => ({ ...(await stores.ledger.row("4711")), pace: undefined });
const ledgerText = async () => redis.hget(stores.keys.ledger, "4711");

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
    const row = rowAt("", "f");
    await stores.staged.settle(first, { row, finished: false, kept: KEPT, counts: ["reads"] });
    expect(JSON.stringify(await redis.hgetall(stores.keys.staged("4711")))).not.toContain(
      "by hand",
    );
    // A newer state needs the same.
    await stage(change("2"));
    const second = await take("b", 0);
    expect(second.kept).toBe(KEPT);
    // The worker dies, and may have sent it: the next one must read again.
    expect((await take("c", 0)).kept).toBeUndefined();
    await stores.staged.settle(await take("d"), { row: "before", finished: false });
    expect((await take("e", 0)).kept).toBeUndefined();
  });

  it("kept fields that were read a minute ago are read again, once", async () => {
    await stage(change("1", { keeps: KEEPS }));
    const row = rowAt("", "f");
    const old = () =>
      editStaged(stores, "4711", ({ read, ...staged }) => ({
        ...staged,
        read: read && { ...read, keptAt: (read.keptAt ?? 0) - 61_000 },
      }));
    for (const kept of [undefined, KEPT]) {
      const state = await take("a");
      await stores.staged.settle(state, { row, finished: false, kept: KEPT, counts: ["reads"] });
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
    expect(await take()).toMatchObject({
      orders: ordersAt("3"),
      payload: "payload 3",
      event: "event 3",
    });
  });

  it("orders by bytes, whatever the server's locale", async () => {
    await stage(change("t\tB\t1"));
    expect((await stage(change("t\ta\t1"))).result).toBe("staged");
    expect((await stage(change("t\tB\t2"))).result).toBe("superseded");
  });

  it("processes one event once within seven days", async () => {
    await stage(change("1", { content: "a" }));
    expect((await stage(change("9", { eventKey: "key-1", content: "a" }))).result).toBe(
      "duplicate",
    );
    expect(await stores.staged.seenAs("key-1", "a")).toBe("same");
    expect(await stores.staged.seenAs("key-2", "any")).toBe(undefined);
    await stores.staged.forgetEvent("key-1");
    expect(await stores.staged.seenAs("key-1", "a")).toBe(undefined);
  });

  it("keeps time and arrival of the first unsynced event through coalescing", async () => {
    const before = await redisNow();
    await stage(change("1", { time: 1000 }));
    const first = await since();
    expect(first).toBeGreaterThanOrEqual(before);
    await redisAfter(first);
    await stage(change("2", { time: 5000 }));
    expect((await take()).change.firstTime).toBe(1000);
    expect(await since()).toEqual(first);
  });

  it("moves a bulk record into the live lane, and never back", async () => {
    await stage(change("1", { lane: "bulk" }));
    for (const lane of ["live", "bulk"] as const) {
      await stage(change(`3 ${lane}`, { lane }));
      expect(await stores.line.due()).toEqual({ live: 1, bulk: 0 });
      expect(await redis.zcard(stores.keys.line("bulk"))).toBe(0);
    }
    expect((await take()).lane).toBe("live");
  });

  it("encrypts payload and event when there is a key", async () => {
    await stage(change("1"));
    const hash = await redis.hgetall(stores.keys.staged("4711"));
    expect(JSON.stringify(hash)).not.toMatch(/payload 1|event 1/);
  });
});

describe("a state that the ledger proves needs no request", () => {
  it("settles a state that the service already has", async () => {
    await sync("1");
    expect((await stage(change("2", { fingerprint: "f-1" }))).result).toBe("unchanged");
    expect(await tryToTake()).toEqual({ kind: "nothing" });
    expect((await stage(change("1.5"))).result).toBe("superseded");
  });

  it("settles a staged change that a newer one reverts", async () => {
    await sync("1");
    await stage(change("2"));
    expect(await stage(change("3", { fingerprint: "f-1" }))).toMatchObject({
      result: "unchanged",
      coalesced: true,
    });
    expect(await since()).toBe(0);
  });

  it("asks for a relation that only a list has shown to be absent before its deletion is settled", async () => {
    await listed(stores, []);
    expect((await stage(deletion("1"))).result).toBe("staged");
    const state = await take();
    expect(state.row).toMatchObject({ exists: false, byList: true });
    // The service has answered that it does not exist.
    const { byList: _, ...answered } = { ...state.row, orders: state.orders };
    await stores.staged.settle(state, { row: answered, finished: true });
    expect((await stage(deletion("2"))).result).toBe("nothing_to_terminate");
    expect(await stores.ledger.row("4711")).toMatchObject({
      exists: false,
      orders: { status: "2" },
    });
  });

  it("believes a later list that has the relation, and forgets a list that did not", async () => {
    await listed(stores, []);
    await stage(change("1"));
    await stores.ledger.forgetAll();
    await listed(stores, [["4711", rowAt("", "f-0")]]);
    expect((await take()).row).toMatchObject({ exists: true, fingerprint: "f-0" });
  });

  it("sends the deletion of a relation whose creation waits: the service may have it", async () => {
    await listed(stores, []);
    await stage(change("1"));
    expect(await stage(deletion("2"))).toMatchObject({ result: "staged", coalesced: true });
    expect(await take()).toMatchObject({ status: "terminated", payload: "payload 1" });
  });

  it("of a relation that the service answered about, no list says otherwise", async () => {
    await sync("1");
    await stage(deletion("2"));
    const gone = { ...rowAt("2"), exists: false, fingerprint: undefined };
    await stores.staged.settle(await take(), { row: gone, finished: true });
    expect(await listed(stores, [["4711", rowAt("", "f-0")]])).toBe(true);
    expect(await stores.ledger.row("4711")).toMatchObject({ exists: false });
    expect((await stage(deletion("3"))).result).toBe("nothing_to_terminate");
  });

  it("a comparison that has seen a relation which was answered to be absent makes it uncertain", async () => {
    await sync("1");
    await stage(deletion("2"));
    const gone = { ...rowAt("2"), exists: false, fingerprint: undefined };
    await stores.staged.settle(await take(), { row: gone, finished: true });
    const askedAt = Date.now() + 60_000;
    await stores.ledger.heal([["4711", { ...rowAt("", "f-0"), provedAt: askedAt }]], askedAt);
    expect(await stores.ledger.row("4711")).toMatchObject({ exists: true, uncertain: true });
    expect((await stage(deletion("3"))).result).toBe("staged");
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
    expect((await tryToTake()).kind).toBe("busy");
  });

  it("tells what the list has shown of a relation without a row", async () => {
    await stage(change("1"));
    expect((await take("a", 0)).row).toMatchObject(rowWithoutProof(false));
    await listed(stores, [["other", rowAt("", "f-0")]]);
    await stage(stateOf("new", "1"));
    expect((await takeFrom(stores, "new")).row).toMatchObject(rowWithoutProof(true));
  });

  it("the row of a request without an answer says nothing of the list, also after the ledger is forgotten", async () => {
    await listed(stores, []);
    await stage(change("2"));
    await stores.staged.settle(await take(), { row: "unknown", finished: false });
    expect(await stores.ledger.row("4711")).toMatchObject({ exists: undefined, uncertain: true });
    await stores.ledger.forgetAll();
    expect(await stores.ledger.row("4711")).toMatchObject({
      exists: undefined,
      orders: ordersAt("2"),
    });
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
    expect(await since()).toBe(0);
    expect(await redis.exists(stores.keys.staged("4711"))).toBe(0);
    expect((await stage(change("1"))).result).toBe("superseded");
  });

  it("keeps a newer state that came meanwhile, with its own first time", async () => {
    await stage(change("1", { time: 1000 }));
    const state = await take();
    await redisAfter(await since());
    const second = await redisNow();
    expect(await stage(change("2", { time: 2000 }))).toMatchObject({ coalesced: false });
    await redisAfter(await redisNow());
    const third = await redisNow();
    expect(await stage(change("3", { time: 3000 }))).toMatchObject({ coalesced: true });
    const end = await stores.staged.settle(state, { row: rowAt("1"), finished: true });
    expect(end).toBe("more");
    expect(await take()).toMatchObject({ orders: ordersAt("3"), change: { firstTime: 2000 } });
    const arrived = await since();
    expect(arrived).toBeGreaterThanOrEqual(second);
    expect(arrived).toBeLessThan(third);
  });

  it("keeps the first time when the first state was not sent", async () => {
    await stage(change("1", { time: 1000 }));
    const state = await take();
    await stage(change("2", { time: 2000 }));
    await stores.staged.settle(state, { row: "before", finished: false, counts: ["failed"] });
    expect(await take()).toMatchObject({
      orders: ordersAt("2"),
      change: { firstTime: 1000, tries: { failed: 1 } },
    });
  });

  it("restores the ledger row when nothing can have been applied", async () => {
    await sync("1");
    const before = await provenRow();
    await stage(change("2"));
    await stores.staged.settle(await take(), { row: "before", finished: false });
    expect(await provenRow()).toEqual(before);
  });

  it("holds a record whose request may still arrive", async () => {
    await stage(change("1"));
    await stores.staged.settle(await take(), { row: "unknown", finished: false, openMs: 5000 });
    expect((await tryToTake()).kind).toBe("busy");
  });

  it("holds a finished record for as long as its request may arrive", async () => {
    await stage(change("1"));
    const state = await take();
    await stores.staged.settle(state, { row: "unknown", finished: true, openMs: 5000 });
    expect(await stores.staged.waiting(["4711"])).toEqual([undefined]);
    await stage(change("2"));
    expect((await tryToTake()).kind).toBe("busy");
    expect(await redis.zscore(stores.keys.later, "4711")).not.toBeNull();
  });

  it.each(["live", "bulk"] as const)("a %s change that is finished waits no more", async (lane) => {
    await stage(change("1", { lane }));
    expect(await redis.zcard(stores.keys.line(lane))).toBe(1);
    const state = await take();
    await stores.staged.settle(state, { row: rowAt("1"), finished: true });
    expect(await redis.zcard(stores.keys.line(lane))).toBe(0);
  });

  it("keeps a fetched payload for the state that had none, and only for that state", async () => {
    await listed(stores, [["4711", rowAt("", "f-0")]]);
    await stage(change("1", { status: "terminated", payload: undefined }));
    const state = await take();
    await stores.staged.settle(state, {
      row: rowAt("", "f-0"),
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
    expect(await stores.staged.settle(first, { row: rowAt("1"), finished: true })).toBe("lost");
    expect(await redis.exists(stores.keys.staged("4711"))).toBe(1);
  });
});

describe("dead letters", () => {
  const deadLetter = (order: string): DeadLetter => ({
    id: "c:4711",
    reason: "invalid",
    problems: [],
    event: "secret",
    source: "/crm",
    subject: "",
    crmCode: "4711",
    order,
    at: 5,
  });

  it("keeps one per record, counts, and is deleted by a newer event", async () => {
    expect(await stores.deadLetters.store(deadLetter("1"))).toBe("stored");
    expect(await stores.deadLetters.store(deadLetter("2"))).toBe("stored");
    expect(await stores.deadLetters.find("c:4711")).toMatchObject({
      times: 2,
      order: "2",
      event: "secret",
    });
    expect(JSON.stringify(await redis.hgetall(stores.keys.deadLetters))).not.toContain("secret");
    await stage(change("3"));
    expect(await stores.deadLetters.count()).toBe(0);
  });

  it("does not store a dead letter that is older than what is known", async () => {
    await sync("5");
    expect(await stores.deadLetters.store(deadLetter("4"))).toBe("superseded");
    await stage(change("7"));
    expect(await stores.deadLetters.store(deadLetter("6"))).toBe("superseded");
  });

  it("keeps the dead letter of a newer event when an older event comes late", async () => {
    await stores.deadLetters.store(deadLetter("2"));
    expect(await stage(change("1"))).toMatchObject({ result: "staged" });
    expect(await stores.deadLetters.count()).toBe(1);
  });
});

describe("warm-up", () => {
  it("never overwrites a newer row, and can be resumed", async () => {
    await sync("3");
    const known = await ledgerText();
    const row = rowAt("", "f-listed");
    const page = ["4711", "4712"].map((crmCode) => [crmCode, row] as const);
    await listed(stores, page, { next: "next" });
    expect(await ledgerText()).toBe(known);
    expect(await stores.ledger.warmUp()).toMatchObject({
      state: "running",
      cursor: "next",
      relations: 2,
    });
    await listed(stores, [], { cursor: "next" });
    expect(await stores.ledger.warmUp()).toMatchObject({ state: "done", cursor: undefined });
  });

  it("lets one process warm the ledger at a time", async () => {
    expect(await stores.ledger.lease.claim("a")).toBe(true);
    expect(await stores.ledger.lease.claim("a")).toBe(true);
    expect(await stores.ledger.lease.claim("b")).toBe(false);
    await stores.ledger.lease.release("b");
    expect(await stores.ledger.lease.claim("b")).toBe(false);
    await stores.ledger.lease.release("a");
    expect(await stores.ledger.lease.claim("b")).toBe(true);
  });
});

it.each(["live", "bulk"] as const)(
  "a %s change whose state is gone from Redis is told once, and waits no longer",
  async (lane) => {
    await stage(change("1", { lane }));
    await redis.del(stores.keys.staged("4711"));
    expect(await tryToTake()).toEqual({ kind: "lost" });
    expect(await redis.zcard(stores.keys.line(lane))).toBe(0);
    expect(await tryToTake()).toEqual({ kind: "nothing" });
  },
);
