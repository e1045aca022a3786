/** A request without an answer may take effect late: what must not hide it, and what it must not undo. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { BulkChanges } from "../../../src/state/bulk-changes.ts";
import { DeadLetters } from "../../../src/state/dead-letters.ts";
import { HeldTerminations } from "../../../src/state/held-terminations.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { SettledLately } from "../../../src/state/settled-lately.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { Verifications } from "../../../src/state/verifications.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/sync/accept-event.ts";
import { createDeadLetter } from "../../../src/sync/dead-letter.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { Settlement, StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import { verifyProof } from "../../../src/sync/verify-proof.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const SEALING = new Sealing([Buffer.alloc(32, 7)]);
const CODE = "4711";

let keys: Keys;
let staged: StagedStates;
let ledger: Ledger;
let verifications: Verifications;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  staged = new StagedStates(redis, keys, SEALING, { verifyAfterMs: 1 });
  ledger = new Ledger(redis, keys);
  verifications = new Verifications(redis, keys, SEALING);
});

/** @param content "": the event brings no record. */
const change = (
  order: string,
  content: string,
  more: Partial<StateToStage> = {},
): StateToStage => ({
  crmCode: CODE,
  eventKey: `key-${order}`,
  order,
  payload: content === "" ? undefined : `payload ${content}`,
  fingerprint: content === "" ? undefined : `f-${content}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1000,
  event: `event ${order}`,
  ...more,
});

const row = (order: string, content: string): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint: `f-${content}`,
  terminated: false,
  variant: "Person",
  watermark: order,
  provedAt: 1,
});

async function take(): Promise<TakenState> {
  const taken = await staged.take(CODE, "worker", 60_000);
  if (taken.kind !== "taken") throw new Error(taken.kind);
  return taken.state;
}

const settleNext = async (how: Settlement) => staged.settle(await take(), how);

/** Sends a change, which the service has from then on. */
async function send(order: string, content: string): Promise<void> {
  await staged.stage(change(order, content));
  await settleNext({ row: row(order, content), finished: true });
}

const TIMED_OUT = { row: "uncertain", finished: false, late: true, counts: ["tries"] } as const;

/** A times out; B is sent after it, and proven. */
async function sendLateAThenB(): Promise<void> {
  await staged.stage(change("1", "A"));
  await settleNext(TIMED_OUT);
  await send("2", "B");
}

/** The service lists the record with this content. */
const list = (content: string) => ledger.writePage([[CODE, row("", content)]], undefined);

/** What is due is verified, and the service has this content. */
async function verify(content: string) {
  await waitFor(async () => await verifications.anyDue(), { what: "something to verify" });
  const due = await verifications.claim(60_000);
  return (
    due &&
    verifyProof(due, {
      get: async () => ({ kind: "found", body: { content } }),
      withdraw: () => verifications.withdraw(due),
      stage: async (state) => void (await staged.stage(state)),
      finish: () => verifications.finish(due),
      isTooOld: () => false,
      now: Date.now,
      fingerprintOf: (body) => `f-${String(body["content"])}`,
    })
  );
}

const waits = async () => (await staged.unsynced([CODE])).length === 1;

it("what a late request has overwritten is sent again", async () => {
  await sendLateAThenB();
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it.each(["rejected", "cancelled", "held and dropped"])(
  "a newer state that was %s does not hide what a late request has overwritten",
  async (end) => {
    await sendLateAThenB();
    const status = end === "held and dropped" ? "terminated" : "mapped";
    await staged.stage(change("3", "C", { lane: "bulk", status }));
    const bulk = new BulkChanges(redis, keys, 1, { note() {}, notedMs: "" });
    if (end === "held and dropped") {
      await settleNext({ row: "before", finished: false, held: true });
      expect(await new HeldTerminations(redis, keys, SEALING, 1).drop(CODE)).toBe(true);
    } else if (end === "cancelled") {
      await settleNext({ row: "before", finished: false, counts: ["tries"] });
      expect(await bulk.drop([CODE])).toMatchObject({ crmCodes: [CODE] });
    } else {
      await settleNext({ row: "before", finished: true });
    }
    expect(await verify("A")).toBe("sent_again");
    expect(await take()).toMatchObject({ payload: "payload B", order: "2" });
  },
);

it("a newer state that was given up, and has arrived, is not overwritten", async () => {
  await sendLateAThenB();
  await staged.stage(change("3", "C"));
  await settleNext({ row: "uncertain", finished: true, late: true });
  await verify("C");
  expect(await waits()).toBe(false);
  expect(await ledger.row(CODE)).toMatchObject({ uncertain: true, watermark: "3" });
});

it("an event with equal content does not make the verified state look old", async () => {
  await sendLateAThenB();
  await staged.stage(change("3", "B"));
  expect(await waits()).toBe(true);
  // It needs no request, and is verified in place of the earlier one.
  await settleNext({ row: row("3", "B"), finished: true });
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a list with the late content does not replace what was proven", async () => {
  await sendLateAThenB();
  await ledger.forgetAll();
  await list("A");
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a comparison that has seen the late content does not replace what was proven", async () => {
  await sendLateAThenB();
  await ledger.heal([[CODE, row("", "A")]], Date.now());
  expect(await verify("A")).toBe("sent_again");
  expect(await waits()).toBe(true);
});

it("a held termination that is dropped leaves the mark of the late request", async () => {
  await send("0", "O");
  await staged.stage(change("1", "A"));
  await settleNext(TIMED_OUT);
  await staged.stage(change("2", "", { status: "terminated" }));
  await settleNext({ row: "before", finished: false, held: true });
  expect(await new HeldTerminations(redis, keys, SEALING, 1).drop(CODE)).toBe(true);
  await staged.stage(change("3", "C"));
  expect(await take()).toMatchObject({ late: true });
});

it("an older event stays superseded while the ledger is forgotten", async () => {
  await send("5", "new");
  // As a kill leaves it, before the watermarks are taken over.
  await redis.del(keys.warmUp);
  await redis.rename(keys.ledger, keys.ledgerForgotten);
  expect((await staged.stage(change("4", "old"))).result).toBe("superseded");
  const rejected = { reason: "invalid", problems: [], event: "event 4", at: 1 } as const;
  const letter = createDeadLetter({ crmCode: CODE }, { ...rejected, order: "4", hasFields: true });
  expect(await new DeadLetters(redis, keys, SEALING).store(letter)).toBe("superseded");
  await ledger.keepWatermarks();
  expect(await ledger.row(CODE)).toMatchObject({ watermark: "5" });
});

it("nothing is unchanged while a request is under way, whatever was listed", async () => {
  await send("0", "O");
  await staged.stage(change("1", "X"));
  const taken = await take();
  await ledger.forgetAll();
  await list("O");
  expect((await staged.stage(change("2", "O"))).result).toBe("staged");
  expect(await staged.settle(taken, { row: row("1", "X"), finished: true })).toBe("more");
  expect(await waits()).toBe(true);
});

it.each(["rejected", "cancelled"])(
  "a late request whose next state was %s leaves the ledger uncertain",
  async (end) => {
    await send("0", "O");
    await staged.stage(change("1", "A", { lane: "bulk" }));
    await settleNext(TIMED_OUT);
    // What was read before the late request took effect.
    await settleNext({ row: row("0", "O"), finished: false, kept: "{}", counts: ["reads"] });
    const bulk = new BulkChanges(redis, keys, 1, { note() {}, notedMs: "" });
    if (end === "cancelled") await bulk.drop([CODE]);
    else await settleNext({ row: "before", finished: true });
    expect(await verify("A")).toBeUndefined();
    expect(await ledger.row(CODE)).toMatchObject({ uncertain: true });
    expect((await staged.stage(change("3", "O"))).result).toBe("staged");
  },
);

it("what is sent again is no bulk change", async () => {
  await sendLateAThenB();
  await verify("A");
  const bulk = new BulkChanges(redis, keys, 1, { note() {}, notedMs: "" });
  expect(await bulk.drop([CODE])).toMatchObject({ crmCodes: [] });
  expect(await waits()).toBe(true);
});

it("a Redis that went back: an older state under way leaves the mark of its request", async () => {
  const lately = new SettledLately(redis, keys, 1);
  lately.note({ crmCode: CODE, order: "2", earlierFields: undefined });
  await staged.stage(change("1", "old"));
  await take();
  await ledger.forgetAll();
  expect(await lately.restore()).toBe(1);
  await list("new");
  expect(await ledger.row(CODE)).toMatchObject({ uncertain: true, watermark: "2" });
  expect(await redis.zcard(keys.verify)).toBe(1);
});

it("the dead letter of a merged record outlives the staging of the event's own record", async () => {
  const deadLetters = new DeadLetters(redis, keys, SEALING);
  const ports = {
    fingerprintOf: () => "f",
    map: async (_event: unknown, subject: string) =>
      subject === "contact/2"
        ? { kind: "unmappable", problems: [{ field: "crmCode", rule: "is missing", kind: "" }] }
        : { kind: "mapped", crmCode: CODE, candidate: undefined, warnings: [] },
    objects: () => [],
    lists: () => new Map(),
    withOwnIds: <Event>(event: Event) => event,
    fetch: async () => undefined,
    latest: () => Date.now(),
    askListsAgain: async () => false,
    isSeen: async (key: string) => (await staged.seen([key])).has(key),
    stage: (state: StateToStage) => staged.stage(state),
    storeDeadLetter: (letter: Parameters<DeadLetters["store"]>[0]) => deadLetters.store(letter),
    dropDeadLetter: async () => false,
    note() {},
  } as unknown as AcceptPorts;
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
