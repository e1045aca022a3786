import { expect, it } from "vitest";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { terminationFindings } from "../../../src/operate/status/change-findings.ts";

const NONE = { held: 0, heldBy: {}, heldSince: undefined, counted: 100, limit: 100 };
const SINCE = Date.parse("2026-11-21T14:02:00Z");

const says = (terminations: Partial<Readings["terminations"]>) =>
  terminationFindings({
    emptyLimit: 20,
    terminations: { ...NONE, heldSince: SINCE, ...terminations },
  } as Readings)
    .map((one) => one.says.replace(/ since .*?14:02:00Z/, " since 14:02"))
    .join("");

const DO = "Release or drop them (crmsync held list). All other changes go on.";

it("says nothing while none is held, although the limit is reached", () => {
  expect(says({})).toBe("");
});

it("says which kinds are held, why, and what to do", () => {
  expect(says({ held: 40, heldBy: { emptied: 40 } })).toBe(
    `40 updates are held since 14:02: for emptying fields beyond EMPTY_LIMIT (20 in an hour). ${DO}`,
  );
  expect(says({ held: 3, heldBy: { limit: 3 } })).toBe(
    `3 terminations are held since 14:02: beyond TERMINATE_LIMIT (100 in 24 hours). ${DO}`,
  );
  expect(says({ held: 1, heldBy: { limit: 1 }, limit: Number.POSITIVE_INFINITY })).toMatch(
    /^1 termination is held since 14:02: beyond TERMINATE_LIMIT \(now unlimited\)/,
  );
  expect(says({ held: 44, heldBy: { other_record: 1, emptied: 40, limit: 3 } })).toBe(
    `40 updates and 4 terminations are held since 14:02: 40 for emptying fields beyond EMPTY_LIMIT (20 in an hour), 3 beyond TERMINATE_LIMIT (100 in 24 hours), 1 of a record that did not write its relation. ${DO}`,
  );
});

it("says of how many it is known why they are held", () => {
  expect(says({ held: 1203, heldBy: { limit: 500 } })).toMatch(
    /^1203 changes are held since 14:02: at least 500 beyond TERMINATE_LIMIT/,
  );
  expect(says({ held: 2, heldBy: {} })).toBe(`2 changes are held since 14:02. ${DO}`);
});
