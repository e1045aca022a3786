import { describe, expect, it } from "vitest";
import {
  letterAfter,
  staysAfter,
  storeLetter,
  type LetterToStore,
} from "../../../src/core/sync/letter.ts";
import type { KnownRecord, LetterMark } from "../../../src/core/sync/record.ts";
import {
  after,
  comes,
  deleted,
  isTaken,
  markOf,
  NOTHING,
  ordersAt,
  rowWith,
  updated,
} from "./record-support.ts";

/** The letter of an event with a record. */
const letter = (order: string, change: Partial<LetterToStore> = {}): LetterToStore => ({
  order,
  is: "mapped",
  event: order,
  hasFields: true,
  reason: "unmappable",
  ...change,
});
const noFields = { hasFields: false, is: "terminated" } as const;
const settled = (status: string, fields = status): KnownRecord => ({
  ...NOTHING,
  row: rowWith({ orders: ordersAt(status, fields) }),
});
const ended: KnownRecord = {
  ...NOTHING,
  row: rowWith({ terminated: true, orders: ordersAt("3", "1") }),
};
const stored = (mark: Partial<LetterMark>, keeps = false) => ({
  kind: "stored",
  keepsEvent: keeps,
  mark: { ...markOf("0", { reason: "unmappable" }), ...mark },
});
/** Redriven with a later deletion; its record cannot be used. */
const unusable = deleted("9", { fieldsOrder: "8", hasUnusedRecord: true });
const own = (order: string) => stored({ order, event: order, fields: order });
const superseded = { kind: "superseded" };

describe("storeLetter", () => {
  it.each<[string, LetterToStore, KnownRecord, object]>([
    ["nothing is known", letter("2"), NOTHING, own("2")],
    ["newer than what was settled", letter("2"), settled("1"), own("2")],
    ["older than what was settled", letter("2"), settled("3"), superseded],
    ["a newer state waits", letter("2"), after([comes(updated("3"))]), superseded],
    ["an older state waits", letter("2"), after([comes(updated("1"))]), own("2")],
    [
      "a worker has taken this very state",
      letter("2"),
      after([comes(updated("2")), isTaken()]),
      own("2"),
    ],
    [
      "the newest fields, under a newer deletion that waits",
      letter("2"),
      after([comes(deleted("3"))]),
      own("2"),
    ],
    ["the newest fields of a record that has ended", letter("2"), ended, superseded],
    [
      "its event was redriven, with fields that can be used by now",
      letter("9", { event: "8", is: "terminated" }),
      after([comes(unusable), comes(updated("8", { status: "terminated" }))]),
      superseded,
    ],
    ["an older letter", letter("2"), { ...NOTHING, letter: markOf("1") }, own("2")],
    ["a newer letter", letter("2"), { ...NOTHING, letter: markOf("3") }, superseded],
    [
      "a newer letter without fields: the two are merged",
      letter("2"),
      { ...NOTHING, letter: markOf("3", { is: "terminated", fields: "" }) },
      stored({ order: "3", is: "terminated", event: "2", fields: "2" }),
    ],
    [
      "a deletion, after a letter with fields: that one's event stays",
      letter("3", noFields),
      { ...NOTHING, letter: markOf("2") },
      stored({ order: "3", is: "terminated", event: "2", fields: "2" }, true),
    ],
    [
      "an event of an unknown record",
      letter("", { order: undefined }),
      settled("3"),
      stored({ order: "", event: "", fields: "" }),
    ],
  ])("%s", (_, one, known, result) => {
    expect(storeLetter(one, known)).toMatchObject(result);
  });
});

describe("letterAfter", () => {
  const both = markOf("2", { order: "3", is: "terminated" });
  it.each<[string, LetterMark, string, LetterMark["is"], string, LetterMark | undefined]>([
    ["an older event", markOf("3"), "2", "mapped", "2", markOf("3")],
    ["newer fields", markOf("2"), "3", "mapped", "3", undefined],
    [
      "a deletion: the letter has the only copy of the fields",
      markOf("2"),
      "3",
      "terminated",
      "",
      markOf("2"),
    ],
    [
      "newer fields, but an older status than the letter's",
      both,
      "3",
      "terminated",
      "2",
      undefined,
    ],
    [
      "a newer status: the letter keeps what belongs to its fields",
      both,
      "4",
      "active",
      "",
      markOf("2"),
    ],
    ["the same status", both, "4", "terminated", "", both],
  ])("%s", (_, mark, order, is, ownFields, result) => {
    expect(letterAfter(mark, { order, is, ownFields, newestFields: "1" })).toEqual(result);
  });

  it("goes when newer fields than its own were known already", () => {
    expect(
      letterAfter(markOf("2"), { order: "4", is: "active", ownFields: "", newestFields: "3" }),
    ).toBeUndefined();
  });
});

describe("staysAfter", () => {
  it.each<[string, string, string, boolean]>([
    ["older fields were sent", "3", "1", true],
    ["its own fields were sent", "3", "2", false],
    ["none were sent", "3", "", true],
    ["the relation has ended", "3", "ended", false],
    ["an older state was sent", "1", "2", true],
  ])("%s", (_, status, fields, stays) => {
    expect(staysAfter(markOf("2"), { status, fields })).toBe(stays);
  });
});
