import { describe, expect, it } from "vitest";
import type { LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import { newestOrders } from "../../../src/core/sync/known.ts";
import type { Made, StageInput } from "../../../src/core/sync/stage.ts";
import { openEvents } from "../../../src/core/state/staged-values.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import {
  after,
  comes,
  deleted,
  isSettled,
  isTaken,
  markOf,
  NOTHING,
  restored,
  rowWith,
  staging,
  T,
  updated,
} from "./record-support.ts";

/** A redriven event, with a later one of its record that brought no fields. */
const redriven = (fieldsOrder: string, order: string, change: Partial<StageInput> = {}) =>
  updated(order, { fieldsOrder, event: `event ${fieldsOrder}`, status: "terminated", ...change });
/** A record with the content of another event. */
const like = (content: string, order: string) =>
  updated(order, { fingerprint: `print ${content}` });
const withoutFields = { payload: undefined, hasUnusedRecord: true } as const;

describe("stage", () => {
  it.each<[string, StageInput[], unknown[]]>([
    ["the first event", [updated("1")], ["staged", false, "1", "1", "mapped", "payload 1"]],
    [
      "a newer record",
      [updated("1"), updated("2")],
      ["staged", true, "2", "2", "mapped", "payload 2"],
    ],
    [
      "an older record",
      [updated("2"), updated("1")],
      ["superseded", false, "2", "2", "mapped", "payload 2"],
    ],
    [
      "a deletion: the fields stay",
      [updated("1"), deleted("2")],
      ["staged", true, "1", "2", "terminated", "payload 1"],
    ],
    [
      "an older deletion",
      [updated("2"), deleted("1")],
      ["superseded", false, "2", "2", "mapped", "payload 2"],
    ],
    [
      "a record from before the deletion: its fields alone",
      [updated("1"), deleted("3"), updated("2")],
      ["staged", true, "2", "3", "terminated", "payload 2"],
    ],
    [
      "a record after a deletion",
      [deleted("1"), updated("2")],
      ["staged", true, "2", "2", "mapped", "payload 2"],
    ],
    [
      "a restored record",
      [updated("1"), deleted("2"), restored("3")],
      ["staged", true, "1", "3", "active", "payload 1"],
    ],
    [
      "a redriven record whose deletion came later",
      [deleted("3"), redriven("2", "3")],
      ["staged", true, "2", "3", "terminated", "payload 3"],
    ],
  ])("%s", (_, events, [result, coalesced, fields, status, is, payload]) => {
    const { differs: __, record, ...outcome } = staging(events);
    expect(outcome).toEqual({ result, coalesced });
    expect(newestOrders(record)).toEqual({ fields, status, is });
    expect(record.staged?.fields?.payload).toBe(payload);
  });

  const settled = rowWith({ orders: { fields: "2", status: "2", is: "mapped" } });
  it.each<[string, StageInput[], LedgerRow | undefined, boolean]>([
    ["other content than what waits", [updated("2"), updated("1")], undefined, true],
    ["the content of what waits", [updated("2"), like("2", "1")], undefined, false],
    ["other content than what was settled", [like("9", "1")], settled, true],
    ["the content of what was settled", [updated("1")], settled, false],
    ["a deletion before a record", [updated("2"), deleted("1")], undefined, true],
    ["one of two deletions", [deleted("2"), deleted("1")], undefined, false],
  ])("an older event with %s: whether it differs", (_, events, row, differs) => {
    expect(staging(events, { ...NOTHING, row })).toMatchObject({ result: "superseded", differs });
  });

  const ended = rowWith({ terminated: true });
  const absent = rowWith({ exists: false });
  it.each<[string, LedgerRow | undefined, StageInput, boolean, string]>([
    ["what the service has", rowWith(), updated("1"), false, "unchanged"],
    ["something else", rowWith(), updated("2"), false, "staged"],
    ["what it may have", rowWith({ uncertain: true }), updated("1"), false, "staged"],
    ["the end of an ended relation", ended, deleted("1"), false, "nothing_to_terminate"],
    [
      "the end of one that is known to be absent",
      absent,
      deleted("1"),
      false,
      "nothing_to_terminate",
    ],
    ["the end of one that only a list did not show", undefined, deleted("1"), true, "staged"],
    [
      "the end of one whose record the mapping ignores, and that a list did not show",
      undefined,
      { ...deleted("1"), leaves: true },
      true,
      "nothing_to_terminate",
    ],
    ["an active one is restored", rowWith(), restored("1"), false, "unchanged"],
    ["an ended one is restored", ended, restored("1"), false, "staged"],
  ])("is settled at once or not: %s", (_, row, event, warm, result) => {
    expect(staging([event], { ...NOTHING, row }, warm).result).toBe(result);
  });

  it("settles nothing at once while a request is under way, or may still arrive", () => {
    const late = [
      comes(updated("2")),
      isTaken(),
      isSettled({ row: rowWith(), finished: false, openMs: 0 }),
    ];
    for (const steps of [late.slice(0, 2), late]) {
      expect(
        staging([updated("1", { order: "3" })], after(steps, { ...NOTHING, row: rowWith() }))
          .result,
      ).toBe("staged");
    }
  });

  it("keeps the live lane, the first arrival and the hold, and begins the counts anew", () => {
    const steps = [
      comes(updated("1")),
      isTaken(),
      isSettled({ finished: false, counts: ["failed", "reads"], openMs: 5000 }),
    ];
    const { staged } = staging([updated("2", { lane: "bulk" })], after(steps)).record;
    expect(staged).toMatchObject({
      lane: "live",
      since: T,
      firstTime: 1,
      tries: { reads: 1 },
      due: T + 7000,
    });
  });

  it("holds what replaces a held termination, unless it is none: that waits from now on", () => {
    const held = after([
      comes(deleted("1")),
      isTaken(),
      isSettled({ finished: false, held: { why: "limit" } }),
    ]);
    expect(staging([deleted("2")], held)).toMatchObject({
      result: "held",
      record: { staged: { held: { why: "limit" }, since: T } },
    });
    const replaced = staging([updated("2")], held);
    expect(replaced).toMatchObject({
      result: "staged",
      record: { staged: { held: undefined, since: T + 1000 } },
    });
  });

  it("holds the deletion of another record of the CRM than the one that wrote the relation", () => {
    const known = { ...NOTHING, row: rowWith({ writer: "a" }) };
    expect(staging([deleted("1", { writer: "b" })], known).record.staged?.held?.why).toBe(
      "other_record",
    );
    expect(staging([deleted("1", { writer: "a" })], known).result).toBe("staged");
  });

  it("keeps the event keys of a bulk change: of the fields, and of the newest event", () => {
    const bulk = { lane: "bulk" } as const;
    const events = [updated("1", bulk), updated("2", bulk), deleted("4", bulk), deleted("5", bulk)];
    const keysOf = ({ record }: Made) => [record.staged?.fields?.key, record.staged?.status.key];
    expect(keysOf(staging(events))).toEqual(["key 2", "key 5"]);
    expect(keysOf(staging([...events, updated("3", bulk)]))).toEqual(["key 3", "key 5"]);
  });

  it("keeps the order of a redriven event whose record is not usable", async () => {
    const { staged } = staging([redriven("8", "9", withoutFields)]).record;
    const events = staged && (await openEvents(staged, "1", new Sealing([])));
    expect(events).toMatchObject({ event: "event 8", eventOrder: "8" });
  });

  it("lets nothing follow that is older than fields which a redriven event has replaced", () => {
    const events = [updated("6"), redriven("7", "9", withoutFields), deleted("9")];
    const { record } = staging(events);
    expect(newestOrders(record)).toEqual({ fields: "6", status: "9", is: "terminated" });
    expect(record.staged?.fields).toBeUndefined();
    expect(staging([...events, updated("5")]).result).toBe("superseded");
    expect(staging([...events, updated("7")]).record.staged?.fields?.order).toBe("7");
  });

  it.each([
    ["newer than what waits", [updated("1"), updated("3")]],
    ["older than what waits", [updated("1"), deleted("3"), updated("2")]],
  ])("lets a newer dead letter decide the status of a record that is %s", (_, events) => {
    const known = after(events.slice(0, -1).map(comes));
    const letter = markOf("4", { is: "active", fields: "" });
    const { record } = staging(events.slice(-1), { ...known, letter });
    expect(record.staged?.status).toEqual({ order: "4", is: "active" });
  });
});

describe("a live event that a bulk change has overtaken", () => {
  const bulk = (order: string, change: Partial<StageInput> = {}) =>
    updated(order, { lane: "bulk", ...change });

  it.each<[string, StageInput[], LedgerRow | undefined, "live" | "bulk"]>([
    ["takes it along", [bulk("3"), updated("2")], undefined, "live"],
    ["also as a deletion", [bulk("3"), deleted("2")], undefined, "live"],
    ["is no bulk event", [bulk("3"), bulk("2")], undefined, "bulk"],
    [
      "is not older than what was settled",
      [bulk("3"), updated("1")],
      rowWith({ orders: { fields: "2", status: "2", is: "mapped" } }),
      "bulk",
    ],
  ])("%s", (_, events, row, lane) => {
    const { record, result } = staging(events, { ...NOTHING, row });
    expect(result).toBe("superseded");
    expect(record.staged).toMatchObject({ lane, fields: { order: "3" } });
  });

  it("leaves a failed one its next try", () => {
    const failed = isSettled({ finished: false, retryAt: T + 60_000, failure: "503" });
    const known = after([comes(bulk("3")), isTaken("w1", 0), failed]);
    const { record } = staging([updated("2")], known);
    expect(record.staged).toMatchObject({ lane: "live", due: T + 60_000 });
  });
});
