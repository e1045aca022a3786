import { expect, test } from "vitest";
import { parseEvent } from "../../../src/event/crm-event.ts";

const typeOf = (
  record: Record<string, unknown>,
  { source = "/crm", type = "crm.record.updated" } = {},
) => {
  const event = { specversion: "1.0", id: "1", source, type, subject: "contact/1" };
  const parsed = parseEvent({ ...event, data: { record } }, 0);
  return parsed.ok ? parsed.event.type : parsed.problems;
};

test.each([
  [{ deletedAt: "2026-11-01T08:00:00Z" }, undefined],
  [{ deleted_at: "2026-11-01 08:00:00" }, undefined],
  [{ IsDeleted: true }, undefined],
  [{ is_deleted: "1" }, undefined],
  [{ deleted: true }, undefined],
  [{ IsDeleted: "WAHR" }, undefined],
  [{ is_deleted: "Oui " }, undefined],
  [{ deleted: "2026-11-01T08:00:00Z" }, undefined],
  [{ deletedOn: "01.11.2026" }, undefined],
  [{ deleted_at: "1700000000" }, undefined],
  [{ softDeletedAt: "20261101" }, undefined],
  [{ DateDeleted: 1_700_000_000 }, undefined],
  [{ archived: true }, "/hubspot/1"],
  [{ id: "1", properties: {}, archived: true }, undefined],
  [{ active_flag: false }, "/pipedrive/1"],
])("%j is the record of a deletion", (record, source) => {
  expect(typeOf(record, { ...(source !== undefined && { source }) })).toBe("crm.record.deleted");
});

test.each([
  { deletedAt: null },
  { deleted_at: "" },
  { deleted_at: "0000-00-00 00:00:00" },
  { deletedAt: "0001-01-01T00:00:00Z" },
  { deleted_on: "01.01.1900" },
  { deleted_at: "1970-01-01T00:00:00Z" },
  { deletedDate: "9999-12-31" },
  { deletedAt: "never" },
  { deletion_date: "2031-01-01" },
  { IsDeleted: "FALSCH" },
  { IsDeleted: false },
  { is_deleted: "0" },
  { deleted: "false" },
  { archived: true },
  { active_flag: false },
  { undeleted: true },
])("%j is there", (record) => {
  expect(typeOf(record)).toBe("crm.record.updated");
});

test("a restoration is believed, whatever its record still says", () => {
  const type = "crm.record.restored";
  expect(typeOf({ deletedAt: "2026-11-01T08:00:00Z" }, { type })).toBe(type);
});
