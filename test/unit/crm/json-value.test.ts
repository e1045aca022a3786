import { expect, test } from "vitest";
import { timeOf } from "../../../src/intake/crm/json-value.ts";

test.for([
  ["2026-11-03T10:00:00.5Z", "2026-11-03T10:00:00.500Z"],
  ["2026-11-03 10:00:00", "2026-11-03T10:00:00.000Z"],
  ["2026-11-03T10:00:00+01:00", "2026-11-03T09:00:00.000Z"],
  [1_793_700_000_000, "2026-11-03T10:00:00.000Z"],
  ["1793700000", "2026-11-03T10:00:00.000Z"],
  // A day and a month that could be swapped, and what JavaScript takes for a month.
  ["03/11/2026 10:00", undefined],
  ["12", undefined],
  ["0001-01-01T00:00:00Z", undefined],
  ["", undefined],
  [null, undefined],
] as const)("the time %j is %s", ([value, time]) => {
  expect(timeOf(value)).toBe(time);
});
