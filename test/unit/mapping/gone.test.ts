import { describe, expect, test } from "vitest";
import type { CrmEvent } from "../../../src/core/event/crm-event.ts";
import {
  asDeletion,
  isGone,
  saysGone,
  unreadMarks,
  type GoneRule,
} from "../../../src/intake/mapping/gone.ts";

const NOW = Date.parse("2026-11-20T09:30:00Z");

test.each([
  true,
  1,
  "1",
  "true",
  "TRUE",
  "Yes",
  " y ",
  "T",
  "x",
  "deleted",
  "2026-11-01T08:00:00Z",
  "2026-11-01T08:00:00.123456+0100",
  "2026-11-01 08:00:00",
  "2026-11-20",
  "01.11.2026",
  "01.11.2026 08:15",
  "20261101",
  "1700000000",
  1_700_000_000,
  1_700_000_000_000,
  // The CRM's clock is a little ahead.
  "2026-11-20T09:31:00Z",
])("%j means deleted", (value) => {
  expect(isGone(value, NOW)).toBe(true);
});

test.each([
  false,
  0,
  "0",
  "false",
  "No",
  "N",
  "f",
  "",
  "  ",
  null,
  undefined,
  "0000-00-00",
  "0000-00-00 00:00:00",
  "00000000",
  "0001-01-01T00:00:00Z",
  "1753-01-01",
  "01.01.1900",
  "1970-01-01T00:00:00Z",
  "1969-12-31T23:00:00Z",
])("%j means there", (value) => {
  expect(isGone(value, NOW)).toBe(false);
});

test.each([
  "active",
  "on",
  "off",
  "WAHR",
  "never",
  "null",
  "2099-12-31",
  "9999-12-31",
  "2026-11-21",
  "2026-04-31",
  "11/01/2026",
  "-1",
  -1,
  2,
  0.5,
  Number.NaN,
  [],
  {},
  [true],
])("%j is not understood", (value) => {
  expect(isGone(value, NOW)).toBeUndefined();
});

const says = (
  record: Record<string, unknown>,
  { source = "/crm", rules = [] }: { source?: string; rules?: GoneRule[] } = {},
) => saysGone(record, { source, object: "contact", rules, now: NOW });

test.each([
  [{ deletedAt: "2026-11-01T08:00:00Z" }, undefined],
  [{ deleted_at: "2026-11-01 08:00:00" }, undefined],
  [{ IsDeleted: true }, undefined],
  [{ is_deleted: "Y" }, undefined],
  [{ softDeletedAt: "20261101" }, undefined],
  [{ archived: true }, "/hubspot/1"],
  [{ id: "1", properties: {}, archived: true }, undefined],
  [{ active_flag: false }, "/pipedrive/1"],
])("%j is a deleted record", (record, source) => {
  expect(says(record, source === undefined ? {} : { source })).toBe(true);
});

test.each([
  { deletedAt: null },
  { deleted: "N" },
  { archived: true },
  { active_flag: false },
  { undeleted: true },
  { deletion_date: "2031-01-01" },
  { _fivetran_deleted: true },
])("%j is there", (record) => {
  expect(says(record)).toBe(false);
});

describe("a mapping names its own mark", () => {
  const rule = (field: string, values?: string[]): GoneRule => {
    return { objects: ["contact"], field, ...(values && { values }) };
  };

  test.each([
    [{ meta: { removed: "x" } }, rule("meta.removed"), true],
    [{ meta: {} }, rule("meta.removed"), false],
    [{ status: "archived" }, rule("status", ["archived", "closed"]), true],
    [{ status: "Active" }, rule("status", ["archived", "closed"]), false],
    [{ status: null }, rule("status", ["null"]), false],
    [{ deleted: "on hold" }, rule("deleted", ["erased"]), false],
    [{ LOEVM: true }, { objects: ["account"], field: "LOEVM" }, false],
  ])("%j by %j: %j", (record, given, expected) => {
    expect(says(record, { rules: [given] })).toBe(expected);
  });

  test("a value that is neither is a problem with its field", () => {
    expect(says({ meta: { removed: "later" } }, { rules: [rule("meta.removed")] })).toMatchObject({
      field: "data.record.meta.removed",
      kind: "a string of 5 characters",
      value: "later",
    });
  });
});

test("one field that says deleted is enough, beside one that is not understood", () => {
  expect(says({ deleted: "active", deleted_at: "2026-11-01" })).toBe(true);
  expect(says({ deleted: "active", deleted_at: null })).toMatchObject({
    field: "data.record.deleted",
  });
});

test.each([
  ["crm.record.updated", "crm.record.deleted"],
  ["crm.record.created", "crm.record.deleted"],
  // A restoration is believed, whatever its record still says.
  ["crm.record.restored", "crm.record.restored"],
] as const)("%s with a deleted record is %s", (type, expected) => {
  const event = { type, source: "/crm", subject: "contact/1", data: { record: { deleted: 1 } } };
  expect(asDeletion(event as unknown as CrmEvent, undefined, NOW).event.type).toBe(expected);
});

test("names that look like a mark and are not read are named", () => {
  const names = ["_fivetran_deleted", "_sdc_deleted_at", "@removed", "_change_type", "LOEVM"];
  const others = ["archived_at", "in_trash", "is_deleted", "deletedAt", "lastName", "state"];
  expect(unreadMarks([...names, ...others], (name) => name === "archived_at")).toEqual([
    ...names,
    "in_trash",
  ]);
});
