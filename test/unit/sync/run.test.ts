import { describe, expect, it } from "vitest";
import { openState } from "../../../src/state/staged-values.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { settle, take } from "../../../src/sync/run.ts";
import type { KnownRecord } from "../../../src/sync/record.ts";
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
      isSettled({ finished: false, held: "limit" }),
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
      staged: { late: true },
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
    expect(known).toEqual({ ...NOTHING, row: rowWith({ orders: ordersAt("2") }) });
  });

  it("restores the row where a try told nothing, but not what was forgotten meanwhile", () => {
    const taken = after([comes(updated("2")), isTaken()], proven);
    const how = settlement({
      finished: false,
      counts: ["tries"],
      failure: "timeout",
      retryAt: T + 9000,
    });
    const { record, result } = settle(taken, "w1", how, at(2000));
    expect(result).toBe("settled");
    expect(record.row).toEqual(proven.row);
    expect(record.staged).toMatchObject({
      due: T + 9000,
      counts: { tries: 1 },
      firstTryAt: T + 2000,
    });
    expect(record.staged?.failure).toEqual({ reason: "timeout", since: T + 2000 });
    const forgotten = { ...rowWith({ exists: undefined }), orders: ordersAt("2") };
    expect(settle({ ...taken, row: forgotten }, "w1", how, at(2000)).record.row).toBe(forgotten);
  });

  it("restores no certain row once a worker has died: its request may be on the service", () => {
    const steps = [
      comes(updated("2")),
      isTaken("w1", 0),
      isTaken("w2"),
      isSettled({ finished: false }, "w2"),
    ];
    const { row, staged } = after(steps, proven);
    expect(row).toMatchObject({ uncertain: true, orders: ordersAt("2") });
    expect(staged).toMatchObject({ phase: "waits", late: true });
  });

  it("is lost once another worker has the record", () => {
    const known = after([comes(updated("1")), isTaken("w1", 0), isTaken("w2")]);
    expect(settle(known, "w1", settlement({}), at(4000))).toEqual({
      record: known,
      result: "lost",
    });
  });

  it.each([
    ["ends", true, { counts: undefined, doubt: undefined, since: T + 2000, firstTime: 2 }],
    [
      "is to be tried again",
      false,
      { counts: { tries: 1 }, doubt: undefined, since: T, firstTime: 1 },
    ],
  ])("lets a newer state wait, at once, when an older one %s", (_, finished, waits) => {
    const known = after([comes(updated("1")), isTaken(), comes(updated("2"))]);
    const how = settlement({
      finished,
      counts: ["tries"],
      doubt: "missing",
      failure: "500",
      retryAt: T + 99_000,
    });
    const { record, result } = settle(known, "w1", how, at(3000));
    expect(result).toBe("more");
    expect(record.staged).toMatchObject({
      ...waits,
      phase: "waits",
      // A new state has a place of its own; one that was not sent keeps its place.
      due: finished ? T + 3000 : T,
      failure: undefined,
      taken: undefined,
    });
  });

  it("holds a termination; what was read for it is read again", () => {
    const how = { finished: false, held: "limit", found: "old", counts: ["tries"] } as const;
    const { staged } = after([comes(deleted("1")), isTaken(), isSettled(how)]);
    expect(staged).toMatchObject({
      phase: "held",
      heldWhy: "limit",
      heldAt: T + 2000,
      counts: undefined,
      found: undefined,
    });
  });

  it("verifies later what was proven while a request may still arrive", () => {
    const lost = isSettled({
      row: "uncertain",
      finished: false,
      late: true,
      holdMs: 500,
      counts: ["tries"],
    });
    const { staged } = after([comes(updated("1")), isTaken(), lost, isTaken(), isDone("1")]);
    expect(staged).toMatchObject({
      phase: "proven",
      due: T + 4000 + VERIFY_MS,
      proof: { exists: true, fingerprint: "print 1" },
      counts: undefined,
      firstTryAt: undefined,
    });
    const givenUp = after([
      comes(updated("1")),
      isTaken(),
      lost,
      isTaken(),
      isSettled({ dead: true }),
    ]);
    expect(givenUp.staged).toMatchObject({ phase: "left", late: true, due: T + 4000 + VERIFY_MS });
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
