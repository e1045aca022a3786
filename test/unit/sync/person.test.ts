import { describe, expect, it } from "vitest";
import { newestOrders } from "../../../src/core/sync/known.ts";
import { cancel, drop, forget, release, restore } from "../../../src/core/sync/person.ts";
import {
  after,
  at,
  comes,
  deleted,
  HOLD_MS,
  isSettled,
  isTaken,
  NOTHING,
  ordersAt,
  rowWith,
  T,
  updated,
  type Step,
} from "./record-support.ts";

const isHeld = [
  comes(deleted("1")),
  isTaken(),
  isSettled({ finished: false, held: { why: "limit" } }),
];
const lost = isSettled({ row: "unknown", finished: false, openMs: 500 });
const bulk = { lane: "bulk" } as const;
const last = Number.MAX_SAFE_INTEGER;

describe("a held termination", () => {
  it("waits again once it is released, and is not held twice", () => {
    const known = release(after(isHeld), at(5000));
    expect(known?.staged).toMatchObject({
      held: undefined,
      approved: true,
      place: T + 5000,
      since: T + 5000,
    });
    expect(after([comes(deleted("2"))], known).staged).toMatchObject({
      held: undefined,
      approved: true,
    });
    expect(after([comes(updated("2"))], known).staged).toMatchObject({
      held: undefined,
      approved: undefined,
    });
    expect(release(after([comes(deleted("1"))]), at(0))).toBeUndefined();
  });

  it("sends back what the service shows, once a person has released one that differs from our own write", () => {
    const written = { ...NOTHING, row: rowWith({ written: true }) };
    const differs = (why: "differs" | "limit") =>
      after([...isHeld.slice(0, 2), isSettled({ finished: false, held: { why } })], written);
    expect(release(differs("differs"), at(5000))?.row?.written).toBeUndefined();
    expect(release(differs("limit"), at(5000))?.row?.written).toBe(true);
  });

  it("is dropped, but not what an earlier request may still do", () => {
    expect(drop(after(isHeld))).toMatchObject({ row: undefined, staged: undefined });
    const late = after([comes(deleted("1")), isTaken(), lost, isTaken(), ...isHeld.slice(2)]);
    expect(drop(late)).toMatchObject({
      staged: undefined,
      row: { uncertain: true, openUntil: T + 2500 },
    });
    expect(drop(after([comes(deleted("1"))]))).toBeUndefined();
  });
});

describe("cancel", () => {
  it.each<[string, Step[], number, string]>([
    ["a bulk change", [comes(updated("1", bulk))], last, "dropped"],
    ["a live one", [comes(updated("1"))], last, "kept"],
    [
      "one that a live event has promoted",
      [comes(updated("1", bulk)), comes(updated("2"))],
      last,
      "kept",
    ],
    ["one that came later", [comes(updated("1", bulk))], T * 1000 - 1, "kept"],
    ["one that is under way", [comes(updated("1", bulk)), isTaken()], last, "busy"],
    ["one of a worker that died", [comes(updated("1", bulk)), isTaken("w1", 0)], last, "dropped"],
    ["a held one", [comes(deleted("1", bulk)), ...isHeld.slice(1)], last, "kept"],
  ])("%s", (_, steps, before, kind) => {
    expect(cancel(after(steps), before, at(5000)).kind).toBe(kind);
  });

  it("leaves open what a worker that has died may have sent", () => {
    const proven = { ...NOTHING, row: rowWith({ written: true }) };
    const known = after([comes(updated("2", bulk)), isTaken()], proven);
    const open = { uncertain: true, openUntil: T + 1000 + HOLD_MS, written: undefined };
    for (const row of [known.row, undefined]) {
      const cancelled = cancel({ ...known, row }, last, at(2000 + HOLD_MS));
      expect(cancelled).toMatchObject({ kind: "dropped", record: { row: open } });
    }
  });

  it("forgets its events, so that the import can be sent again", () => {
    const known = after([comes(updated("1", bulk)), comes(deleted("2", bulk))]);
    expect(cancel(known, last, at(5000))).toMatchObject({
      eventKeys: ["key 1", "key 2"],
      record: { staged: undefined },
    });
  });
});

describe("forget", () => {
  it("leaves the newest orders, register by register, and nothing else", () => {
    const known = after([comes(updated("1")), comes(deleted("3"))], {
      ...NOTHING,
      row: rowWith({ orders: ordersAt("2") }),
    });
    const orders = { fields: "2", status: "3", is: "terminated" };
    expect(forget(known, at(5000))).toMatchObject({
      kind: "erased",
      isAbsent: false,
      row: { exists: undefined, orders },
    });
    expect(forget(NOTHING, at(0))).toMatchObject({ kind: "erased", row: undefined });
  });

  it("still knows of a request that may take effect", () => {
    const known = after([comes(updated("1")), isTaken(), lost]);
    const row = { uncertain: true, openUntil: T + 2500 };
    expect(forget(known, at(5000))).toMatchObject({ kind: "erased", row });
  });

  it("waits for a request that is under way", () => {
    expect(forget(after([comes(updated("1")), isTaken()]), at(2000)).kind).toBe("held");
  });
});

describe("restore", () => {
  const waits = after([comes(updated("2"))]);

  it("drops what is older than what was settled since", () => {
    const { dropped, record } = restore(waits, ordersAt("3", "1"));
    expect(dropped).toBe(true);
    expect(record).toMatchObject({
      staged: undefined,
      row: { uncertain: false, orders: { status: "3", fields: "1" } },
    });
    const taken = restore(after([isTaken()], waits), ordersAt("3")).record;
    expect(taken).toMatchObject({
      staged: undefined,
      row: { uncertain: true, openUntil: T + HOLD_MS },
    });
  });

  it("tells each register: newer fields below the same deletion", () => {
    const deletion = { ...NOTHING, row: rowWith({ orders: ordersAt("3", "1") }) };
    expect(restore(deletion, ordersAt("3", "2")).record.row?.orders).toEqual(ordersAt("3", "2"));
    const older = after([comes(updated("1")), comes(deleted("3"))]);
    expect(restore(older, ordersAt("3", "2")).dropped).toBe(true);
    expect(restore(older, ordersAt("3", "1")).dropped).toBe(false);
  });

  it("leaves alone what is newer", () => {
    const { dropped, record } = restore(waits, ordersAt("1"));
    expect(dropped).toBe(false);
    expect(newestOrders(record)).toEqual(ordersAt("2"));
  });

  it("marks a request that may still take effect", () => {
    const { row } = restore(NOTHING, ordersAt("1"), T + 500).record;
    expect(row).toMatchObject({ uncertain: true, openUntil: T + 500, orders: ordersAt("1") });
  });
});
