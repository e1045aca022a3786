/** A request without an answer may take effect late: what must not hide it, and what it must not undo. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { eventRules } from "../../../src/intake/mapping/map-event-record.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/core/sync/accept-event.ts";
import { TRIAL_RECORDS } from "../../../src/core/sync/end-record.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { Settlement } from "../../../src/core/sync/run.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { isSent } from "../../../src/core/sync/known.ts";
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

const CODE = "4711";

let stores: TestStores;
beforeEach(() => {
  stores = storesOf(redis, { verifyMs: 1 });
});

const change = (order: string, content: string, more: Partial<StateToStage> = {}) =>
  stateOf(CODE, order, { payload: `payload ${content}`, fingerprint: `f-${content}`, ...more });
const stage = (state: StateToStage) => stores.staged.stage(state);
const take = () => takeFrom(stores, CODE);
const row = (order: string, content: string) => rowAt(order, `f-${content}`);
const settleNext = async (how: Settlement) => stores.staged.settle(await take(), how);

/** Sends a change, which the service has from then on. */
async function send(order: string, content: string): Promise<void> {
  await stage(change(order, content));
  await settleNext({ row: row(order, content), finished: true });
}

const TIMED_OUT = { row: "unknown", finished: false, openMs: 0, counts: ["failed"] } as const;

/** A times out; B is sent after it, and proven. */
async function sendLateAThenB(): Promise<void> {
  await stage(change("1", "A"));
  await settleNext(TIMED_OUT);
  await send("2", "B");
}

/** The service lists the record with this content. */
const list = (content: string) => listed(stores, [[CODE, row("", content)]]);

/** What is on the service is read once more, and has this content. */
async function verify(content: string) {
  const [change] = await stores.staged.waiting([CODE]);
  if (change === undefined || !isSent(change)) return undefined;
  const state = await take();
  const isSame = state.row.fingerprint === `f-${content}`;
  const read = { ...state.row, uncertain: !isSame };
  await stores.staged.settle(state, { row: read, finished: isSame, confirmed: true });
  return isSame ? "same" : "sent_again";
}

const waits = async () => (await stores.line.unsynced([CODE])).length === 1;

it("what a late request has overwritten is sent again", async () => {
  await sendLateAThenB();
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("what the service still has is verified, and needs nothing more", async () => {
  await sendLateAThenB();
  expect(await verify("B")).toBe("same");
  expect(await waits()).toBe(false);
  expect(await redis.exists(stores.keys.staged(CODE))).toBe(0);
});

it.each(["rejected", "cancelled", "held and dropped"])(
  "after a newer state that was %s, nobody believes what was proven before the late request",
  async (end) => {
    await sendLateAThenB();
    const status = end === "held and dropped" ? "terminated" : "mapped";
    await stage(change("3", "C", { lane: "bulk", status }));
    if (end === "held and dropped") {
      await settleNext({ row: "before", finished: false, held: { why: "limit" } });
      expect(await stores.held.drop(CODE)).toBe(true);
    } else if (end === "cancelled") {
      await settleNext({ row: "before", finished: false, counts: ["failed"] });
      expect(await stores.bulkChanges.drop([CODE])).toMatchObject({ crmCodes: [CODE] });
    } else {
      await settleNext({ row: "before", finished: true });
    }
    expect(await verify("A")).toBeUndefined();
    expect(await stores.ledger.row(CODE)).toMatchObject({ uncertain: true });
    expect((await stage(change("4", "B"))).result).toBe("staged");
  },
);

it("a newer state that was given up, and has arrived, is not overwritten", async () => {
  await sendLateAThenB();
  await stage(change("3", "C"));
  await settleNext({ row: "unknown", finished: true, openMs: 0 });
  await verify("C");
  expect(await waits()).toBe(false);
  expect(await stores.ledger.row(CODE)).toMatchObject({ uncertain: true, orders: ordersAt("3") });
});

it("an event with equal content does not make the verified state look old", async () => {
  await sendLateAThenB();
  await stage(change("3", "B"));
  expect(await waits()).toBe(true);
  // It needs no request, and is verified in place of the earlier one.
  await settleNext({ row: row("3", "B"), finished: true });
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a list with the late content does not replace what was proven", async () => {
  await sendLateAThenB();
  await stores.ledger.forgetAll();
  await list("A");
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a comparison that has seen the late content does not replace what was proven", async () => {
  await sendLateAThenB();
  await stores.ledger.heal([[CODE, row("", "A")]], Date.now());
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a held termination that is dropped leaves the mark of the late request", async () => {
  await send("0", "O");
  await stage(change("1", "A"));
  await settleNext(TIMED_OUT);
  await stage(change("2", "", DELETED));
  await settleNext({ row: "before", finished: false, held: { why: "limit" } });
  expect(await stores.held.drop(CODE)).toBe(true);
  await stage(change("3", "C"));
  expect((await take()).row.openUntil).toBeDefined();
});

it("an older event stays superseded while the ledger is forgotten", async () => {
  await send("5", "new");
  await stores.ledger.forgetAll();
  expect((await stage(change("4", "old"))).result).toBe("superseded");
  const rejected = { reason: "invalid", problems: [], event: "event 4", at: 1 } as const;
  const letter = createDeadLetter({ crmCode: CODE }, { ...rejected, order: "4", hasFields: true });
  expect(await stores.deadLetters.store(letter)).toBe("superseded");
});

it("nothing is unchanged while a request is under way, whatever was listed", async () => {
  await send("0", "O");
  await stage(change("1", "X"));
  const taken = await take();
  await stores.ledger.forgetAll();
  await list("O");
  expect((await stage(change("2", "O"))).result).toBe("staged");
  expect(await stores.staged.settle(taken, { row: row("1", "X"), finished: true })).toBe("more");
  expect(await waits()).toBe(true);
});

it.each(["rejected", "cancelled"])(
  "a late request whose next state was %s leaves the ledger uncertain",
  async (end) => {
    await send("0", "O");
    await stage(change("1", "A", { lane: "bulk" }));
    await settleNext(TIMED_OUT);
    // What was read before the late request took effect.
    await settleNext({ row: row("0", "O"), finished: false, kept: "{}", counts: ["reads"] });
    if (end === "cancelled") await stores.bulkChanges.drop([CODE]);
    else await settleNext({ row: "before", finished: true });
    expect(await verify("A")).toBeUndefined();
    expect(await stores.ledger.row(CODE)).toMatchObject({ uncertain: true });
    expect((await stage(change("3", "O"))).result).toBe("staged");
  },
);

it("what is sent again is no bulk change", async () => {
  await sendLateAThenB();
  await verify("A");
  expect(await stores.bulkChanges.drop([CODE])).toMatchObject({ crmCodes: [] });
  expect(await waits()).toBe(true);
});

it("a Redis that went back: an older state under way leaves the mark of its request", async () => {
  const { settledLately: lately } = stores;
  lately.note(
    { crmCode: CODE, orders: ordersAt("2") },
    { row: row("2", "new"), finished: true },
    0,
  );
  await stage(change("1", "old"));
  await take();
  await stores.ledger.forgetAll();
  expect(await lately.restore()).toBe(1);
  await list("new");
  expect(await stores.ledger.row(CODE)).toMatchObject({ uncertain: true, orders: ordersAt("2") });
  expect((await stores.ledger.row(CODE))?.openUntil).toBeDefined();
});

it("a Redis that went back: the mark of a request that had no answer is set again", async () => {
  const { ledger, settledLately: lately } = stores;
  const taken = { crmCode: CODE, orders: ordersAt("2") };
  lately.note(taken, { ...TIMED_OUT, openMs: 500 }, 1000);
  await stage(change("1", "old"));
  await ledger.forgetAll();
  // The older change may be what the CRM has: only what was finished replaces it.
  expect(await lately.restore()).toBe(0);
  await list("new");
  expect(await ledger.row(CODE)).toMatchObject({ uncertain: true, openUntil: 1500 });
  lately.note(taken, { row: row("2", "new"), finished: true, confirmed: true }, 9000);
  await ledger.forgetAll();
  await lately.restore();
  expect(lately.latest(1)).toEqual([CODE]);
});

it("the dead letter of a merged record outlives the staging of the event's own record", async () => {
  const { deadLetters, staged } = stores;
  const ports: AcceptPorts = {
    rules: eventRules({}),
    mapping: {
      fetch: async () => undefined,
      map: async (_event, subject) =>
        subject === "contact/2"
          ? {
              kind: "unmappable",
              crmCode: undefined,
              problems: [{ field: "crmCode", rule: "is missing", kind: "" }],
            }
          : { kind: "mapped", crmCode: CODE, candidate: undefined },
      codeOf: (subject) => staged.codeOf(subject),
    },
    lists: { known: () => new Map(), askAgain: async () => false },
    fingerprintOf: () => "f",
    records: {
      ...TRIAL_RECORDS,
      contentOf: () => "content",
      seenAs: (key, content) => staged.seenAs(key, content),
      stage: (state) => staged.stage(state),
      storeDeadLetter: (letter) => deadLetters.store(letter),
    },
  };
  const event = {
    specversion: "1.0",
    id: "1",
    source: "/crm",
    type: "crm.record.updated",
    subject: "contact/1",
    time: "2026-01-01T00:00:00Z",
    data: { merged: ["contact/2"], record: {} },
  };
  const { records } = await acceptEvent(event, { at: Date.now(), number: 1 }, ports);
  expect(records.map(({ result }) => result)).toEqual(["rejected", "staged"]);
  expect(await deadLetters.count()).toBe(1);
});
