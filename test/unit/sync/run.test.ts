import { describe, expect, it } from "vitest";
import { openState } from "../../../src/core/state/staged-values.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { settle, take } from "../../../src/core/sync/run.ts";
import type { KnownRecord } from "../../../src/core/sync/record.ts";
import {
  after,
  at,
  comes,
  deleted,
  HOLD_MS,
  isSettled,
  isTaken,
  markOf,
  NOTHING,
  ordersAt,
  rowWith,
  settlement,
  T,
  updated,
  VERIFY_MS,
} from "./record-support.ts";

const proven = { ...NOTHING, row: rowWith({ orders: ordersAt("1") }) };
const isDone = (order: string) => isSettled({ row: rowWith({ orders: ordersAt(order) }) });

describe("take", () => {
  it("takes nothing of a record that waits for nobody, or for a person", () => {
    expect(take(NOTHING, "w1", HOLD_MS, at(0)).kind).toBe("nothing");
    const held = after([
      comes(deleted("1")),
      isTaken(),
      isSettled({ finished: false, held: { why: "limit" } }),
    ]);
    expect(take(held, "w2", HOLD_MS, at(3000)).kind).toBe("nothing");
  });

  it("lets no second worker take it before the end of the hold", () => {
    const known = after([comes(updated("1")), isTaken()]);
    expect(take(known, "w2", HOLD_MS, at(2000))).toEqual({
      kind: "busy",
      until: T + 1000 + HOLD_MS,
    });
    expect(take(known, "w2", HOLD_MS, at(1000 + HOLD_MS))).toMatchObject({
      kind: "taken",
      // Its worker may have left a request behind.
      row: { uncertain: true, openUntil: T + 1000 + HOLD_MS },
    });
  });

  it("makes the row uncertain and counts the orders as settled, also after a crash", () => {
    const { row } = after([comes(updated("1")), comes(deleted("2")), isTaken()], proven);
    expect(row).toMatchObject({
      uncertain: true,
      fingerprint: "print 1",
      orders: { fields: "1", status: "2", is: "terminated" },
    });
  });
});

describe("settle", () => {
  it("ends a state, with the row that its reply proves", () => {
    const known = after([comes(updated("2")), isTaken(), isDone("2")], proven);
    expect(known).toEqual({
      ...NOTHING,
      row: { ...rowWith({ orders: ordersAt("2") }), openUntil: undefined },
    });
  });

  it("restores the row where a try told nothing, but not what was forgotten meanwhile", () => {
    const taken = after([comes(updated("2")), isTaken()], proven);
    const how = settlement({
      finished: false,
      counts: ["failed"],
      failure: "timeout",
      retryAt: T + 9000,
    });
    const { record, result } = settle(taken, "w1", how, at(2000));
    expect(result).toBe("settled");
    expect(record.row).toEqual({ ...proven.row, openUntil: undefined });
    expect(record.staged).toMatchObject({
      due: T + 9000,
      tries: { failed: 1, firstAt: T + 2000, why: "timeout", since: T + 2000 },
    });
    const forgotten = { ...rowWith({ exists: undefined }), orders: ordersAt("2") };
    expect(settle({ ...taken, row: forgotten }, "w1", how, at(2000)).record.row).toMatchObject({
      exists: undefined,
      uncertain: true,
    });
  });

  it("restores no certain row once a worker has died: its request may be on the service", () => {
    const steps = [
      comes(updated("2")),
      isTaken("w1", 0),
      isTaken("w2"),
      isSettled({ finished: false }, "w2"),
    ];
    const { row, staged } = after(steps, proven);
    expect(row).toMatchObject({ uncertain: true, openUntil: T + 1000 });
    expect(staged).toMatchObject({ held: undefined, taken: undefined });
  });

  it("is lost once another worker has the record", () => {
    const known = after([comes(updated("1")), isTaken("w1", 0), isTaken("w2")]);
    expect(settle(known, "w1", settlement({}), at(4000))).toEqual({
      record: known,
      result: "lost",
    });
    // Nobody knows which of two requests came last.
    const wrote = settle(known, "w1", settlement({ wrote: true }), at(90_000));
    expect(wrote.record.row).toMatchObject({ uncertain: true, openUntil: T + 90_000 });
    expect(wrote.isLate).toBe(false);
    // Nothing waits that would correct it.
    const ended = { ...known, staged: undefined };
    expect(settle(ended, "w1", settlement({ wrote: true }), at(90_000)).isLate).toBe(true);
  });

  it.each([
    ["ends", true, { tries: undefined, confirm: undefined, since: T + 2000, firstTime: 2 }],
    [
      "is to be tried again",
      false,
      { tries: { failed: 1 }, confirm: undefined, since: T, firstTime: 1 },
    ],
  ])("lets a newer state wait, at once, when an older one %s", (_, finished, waits) => {
    const known = after([comes(updated("1")), isTaken(), comes(updated("2"))]);
    const how = settlement({
      finished,
      counts: ["failed"],
      confirm: { why: "missing", since: T },
      failure: "500",
      retryAt: T + 99_000,
    });
    const { record, result } = settle(known, "w1", how, at(3000));
    expect(result).toBe("more");
    expect(record.staged).toMatchObject({
      ...waits,
      // A new state has a place of its own; one that was not sent keeps its place.
      place: finished ? T + 3000 : T,
      due: undefined,
      taken: undefined,
    });
    expect(record.staged?.tries?.why).toBeUndefined();
  });

  it("holds a termination; what was read for it is read again", () => {
    const held = { why: "limit" } as const;
    const how = { finished: false, held, found: "old", counts: ["failed"] } as const;
    const { staged } = after([comes(deleted("1")), isTaken(), isSettled(how)]);
    expect(staged).toMatchObject({
      held: { why: "limit", at: T + 2000 },
      tries: undefined,
      read: undefined,
    });
  });

  describe("a request that may still take effect", () => {
    const lost = isSettled({ row: "unknown", finished: false, openMs: 500, counts: ["failed"] });
    const sent = [comes(updated("2")), isTaken(), lost];
    const late = [...sent, isTaken(), isDone("2")];
    const open = { uncertain: true, openUntil: T + 2500 };

    it("lets what is proven be read once more", () => {
      expect(after(late)).toMatchObject({
        row: { ...open, fingerprint: "print 1" },
        staged: { confirm: { why: "late" }, due: T + 4000 + VERIFY_MS, tries: undefined },
      });
      const read = { row: rowWith({ orders: ordersAt("2") }), confirmed: true };
      const confirmed = after([...late, isTaken("w2"), isSettled(read, "w2")]);
      expect(confirmed).toMatchObject({ staged: undefined, row: { uncertain: false } });
      expect(confirmed.row?.openUntil).toBeUndefined();
    });

    it("lets it be sent again, live, when the service has something else", () => {
      const row = rowWith({ orders: ordersAt("2"), uncertain: true });
      const differs = isSettled({ row, finished: false, confirmed: true }, "w2");
      const { staged } = after([...late, isTaken("w2"), differs]);
      expect(staged).toMatchObject({ lane: "live", since: T + 6000, confirm: undefined });
    });

    it("leaves nothing that our own answered write has proved", () => {
      const written = { ...NOTHING, row: rowWith({ written: true, orders: ordersAt("1") }) };
      expect(after(sent, written).row?.written).toBeUndefined();
      const died = [comes(updated("2")), isTaken("w1", 0), isTaken("w2")];
      expect(after(died, written).row?.written).toBeUndefined();
    });

    it("may overwrite the fields: an event without a record is sent with them", () => {
      const { staged } = after([...late, comes(deleted("3"))]);
      expect(staged).toMatchObject({ fields: { order: "2" }, status: { is: "terminated" } });
      const certain = after([comes(updated("2")), isTaken(), isDone("2"), comes(deleted("3"))]);
      expect(certain.staged?.fields).toBeUndefined();
    });

    it("lets no dead letter go: what was read is not what it says", () => {
      const dead = isSettled({ row: rowWith(), dead: true, openMs: 0 });
      expect(after([comes(updated("2")), isTaken(), dead])).toMatchObject({
        row: { uncertain: true },
        staged: undefined,
      });
    });

    it("is looked for although a newer event needs no request", () => {
      const gone = { row: rowWith({ exists: false, orders: ordersAt("2") }) } as const;
      const absent = isSettled({ ...gone, confirm: { why: "late", since: T } });
      const steps = [comes(deleted("2")), isTaken(), absent, comes(deleted("3"))];
      expect(after(steps, proven)).toMatchObject({
        row: { exists: false, orders: { status: "3" } },
        staged: { confirm: { why: "late" }, status: { order: "3", is: "terminated" } },
      });
    });

    const accepted = { row: "unknown", finished: false, openMs: 500 } as const;
    const confirm = { why: "accepted", since: T } as const;
    it.each([
      ["given up", [...sent, isTaken(), isSettled({ dead: true })]],
      ["replaced before it was looked for", [...sent, comes(updated("3"))]],
      [
        "accepted, and replaced",
        [...sent.slice(0, 2), isSettled({ ...accepted, confirm }), comes(updated("3"))],
      ],
    ])("is marked: %s", (_, steps) => {
      expect(after(steps, proven).row).toMatchObject(open);
      const next = [comes(updated("4")), isTaken("w3"), isSettled({ row: rowWith() }, "w3")];
      expect(after([...steps, ...next], proven).staged?.confirm?.why).toBe("late");
    });

    it("is marked although the ledger was forgotten, and listed anew, meanwhile", () => {
      const taken = after([comes(updated("2")), isTaken()], proven);
      const how = settlement({ row: "unknown", finished: false, openMs: 500 });
      for (const row of [undefined, rowWith()]) {
        const { record } = settle({ ...taken, row }, "w1", how, at(2000));
        expect(record.row).toMatchObject({ uncertain: true, openUntil: T + 2500 });
      }
    });
  });

  it.each([
    ["no event brought fields", [deleted("2")], "found"],
    ["a termination needs those of the other variant", [updated("1"), deleted("2")], "found"],
    ["a record of the CRM came since", [deleted("2"), updated("3")], "payload 3"],
    [
      "it is not terminated any more",
      [updated("1"), deleted("2"), updated("3", { payload: undefined, status: "active" })],
      "payload 1",
    ],
  ])("sends what was read: %s", async (_, events, payload) => {
    const count = events.filter(({ order }) => order < "3").length;
    const read = [isTaken(), isSettled({ finished: false, found: "found" })];
    const steps = events.map(comes);
    const { staged } = after([...steps.slice(0, count), ...read, ...steps.slice(count)]);
    expect(staged && (await openState(staged, "1", new Sealing([]), T))).toMatchObject({ payload });
  });

  it.each<[string, Partial<Parameters<typeof isSettled>[0]>, boolean]>([
    ["the service has it", { row: rowWith({ orders: ordersAt("3") }) }, true],
    ["it was rejected again", { dead: true }, false],
    ["it was given up without a row", {}, false],
  ])("drops the letter once the service has what it says: %s", (_, how, isDropped) => {
    const sent = {
      status: "mapped",
      payload: "{}",
      eventOrder: "3",
      orders: ordersAt("3"),
    } as const;
    const steps = [comes(updated("3")), isTaken()];
    const taken: KnownRecord = { ...after(steps), letter: markOf("3") };
    const { letter } = settle(taken, "w1", settlement({ sent, ...how }), at(2000)).record;
    expect(letter === undefined).toBe(isDropped);
  });
});
