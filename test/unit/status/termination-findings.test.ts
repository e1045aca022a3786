import { expect, it } from "vitest";
import type { Readings } from "../../../src/status/readings.ts";
import { terminationFindings } from "../../../src/status/change-findings.ts";

const says = (terminations: Partial<Readings["terminations"]>) =>
  terminationFindings({
    terminations: { held: 0, heldSince: undefined, counted: 100, limit: 100, ...terminations },
  } as Readings).map((one) => one.says);

it("says nothing while none is held, although the limit is reached", () => {
  expect(says({})).toEqual([]);
});

it("says how many are held, since when, and what to do", () => {
  const [first] = says({ held: 50, heldSince: Date.parse("2026-11-21T14:02:00Z") });
  expect(first).toMatch(
    /^50 changes are held since .*14:02.*: terminations beyond TERMINATE_LIMIT \(100 in 24 hours\) or of a record that did not write its relation, or updates that empty fields beyond EMPTY_LIMIT\. Release or drop them \(crmsync held list\)\. All other changes go on\.$/,
  );
  const [unlimited] = says({ held: 1, heldSince: 0, limit: Number.POSITIVE_INFINITY });
  expect(unlimited).toMatch(/^1 change is held since .*\(now unlimited\)/);
});
