import { describe, expect, it } from "vitest";
import { newestOrders } from "../../../src/sync/record.ts";
import {
  cancel,
  drop,
  expire,
  forget,
  release,
  restore,
  verified,
  withdraw,
} from "../../../src/sync/person.ts";
import {
  after,
  at,
  comes,
  deleted,
  isSettled,
  isTaken,
  NOTHING,
  ordersAt,
  rowWith,
  T,
  updated,
  VERIFY_MS,
  type Step,
} from "./record-support.ts";

const isHeld = [comes(deleted("1")), isTaken(), isSettled({ finished: false, held: "limit" })];
const lost = isSettled({ row: "uncertain", finished: false, late: true, holdMs: 500 });
const bulk = { lane: "bulk" } as const;
const last = Number.MAX_SAFE_INTEGER;

describe("a held termination", () => {
  it("waits again once it is released, and is not held twice", () => {
    const known = release(after(isHeld), at(5000));
    expect(known?.staged).toMatchObject({
      phase: "waits",
      approved: true,
      due: T + 5000,
      since: T + 5000,
    });
    expect(after([comes(deleted("2"))], known).staged).toMatchObject({
      phase: "waits",
      approved: true,
    });
    expect(after([comes(updated("2"))], known).staged).toMatchObject({
      phase: "waits",
      approved: undefined,
    });
    expect(release(after([comes(deleted("1"))]), at(0))).toBeUndefined();
  });

  it("is dropped, but not what an earlier request may still do", () => {
    expect(drop(after(isHeld), at(5000))).toMatchObject({ row: undefined, staged: undefined });
    const late = after([comes(deleted("1")), isTaken(), lost, isTaken(), ...isHeld.slice(2)]);
    expect(drop(late, at(5000))?.staged).toMatchObject({
      phase: "left",
      due: T + 5000 + VERIFY_MS,
    });
    expect(drop(after([comes(deleted("1"))]), at(0))).toBeUndefined();
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

  it("waits for a request that is under way", () => {
    expect(forget(after([comes(updated("1")), isTaken()]), at(2000)).kind).toBe("held");
  });
});

describe("restore", () => {
  const waits = after([comes(updated("2"))]);

  it("drops what is older than what was settled since", () => {
    const { dropped, record } = restore(waits, ordersAt("3", "1"), at(5000));
    expect(dropped).toBe(true);
    expect(record).toMatchObject({
      staged: undefined,
      row: { uncertain: false, orders: { status: "3", fields: "1" } },
    });
    const taken = restore(after([isTaken()], waits), ordersAt("3"), at(5000)).record;
    expect(taken).toMatchObject({ staged: { phase: "left" }, row: { uncertain: true } });
  });

  it("tells each register: newer fields below the same deletion", () => {
    const deletion = { ...NOTHING, row: rowWith({ orders: ordersAt("3", "1") }) };
    expect(restore(deletion, ordersAt("3", "2"), at(0)).record.row?.orders).toEqual(
      ordersAt("3", "2"),
    );
    const older = after([comes(updated("1")), comes(deleted("3"))]);
    expect(restore(older, ordersAt("3", "2"), at(5000)).dropped).toBe(true);
    expect(restore(older, ordersAt("3", "1"), at(5000)).dropped).toBe(false);
  });

  it("leaves alone what is newer", () => {
    const { dropped, record } = restore(waits, ordersAt("1"), at(5000));
    expect(dropped).toBe(false);
    expect(newestOrders(record)).toEqual(ordersAt("2"));
  });
});

describe("a verification", () => {
  const isDone = isSettled({ row: rowWith({ orders: ordersAt("1") }) });
  const known = after([comes(updated("1", bulk)), isTaken(), lost, isTaken(), isDone]);
  const version = known.staged?.version ?? 0;

  it("sends the state again when the service has something else", () => {
    const row = rowWith({ marks: "marks" });
    const again = withdraw({ ...known, row }, version, at(9000));
    expect(again?.row?.uncertain).toBe(true);
    // What the service has by now is not known.
    expect(again?.row?.marks).toBeUndefined();
    expect(again?.staged).toMatchObject({
      phase: "waits",
      lane: "live",
      late: undefined,
      since: T + 9000,
      fields: { order: "1" },
    });
    expect(withdraw(after([comes(updated("2"))], known), version, at(9000))).toBeUndefined();
  });

  it("ends, unless the record has changed", () => {
    expect(verified(known, version)?.staged).toBeUndefined();
    expect(verified(after([comes(updated("2"))], known), version)).toBeUndefined();
  });

  it("makes the row uncertain where there is nothing to compare", () => {
    const givenUp = after([
      comes(updated("2")),
      isTaken("w1", 0),
      isTaken("w2"),
      isSettled({ dead: true }, "w2"),
    ]);
    expect(expire({ ...givenUp, row: rowWith() })).toMatchObject({
      staged: undefined,
      row: { uncertain: true },
    });
    expect(expire(known)).toBeUndefined();
  });
});
