import { expect, test } from "vitest";
import { rejectionOf } from "../../../src/core/sync/told.ts";

const problems = [{ field: "lastName", rule: "must not be 'Muster'", kind: "a string" }];

test.each([
  ["invalid", "must not be 'Muster'"],
  // The service's words, and those of a mapping's own code, may quote a value.
  ["service_rejected", undefined],
  ["unmappable", undefined],
  ["not_fetched", undefined],
] as const)("of a record that is %s, the rule is told as %j", (reason, rule) => {
  const told = rejectionOf({ at: 1, reason, problems });
  expect(told.problems).toEqual([{ field: "lastName", ...(rule && { rule }) }]);
});

test("a missing field is told with its rule, a field of another name without the name", () => {
  const rule = "is required: the value cannot be converted to the form of the field";
  const all = [
    { field: "birthDate", rule, kind: "nothing" },
    { field: "x".repeat(300), rule: "is not known", kind: "nothing" },
  ];
  const told = rejectionOf({ at: 1, reason: "unmappable", problems: all });
  expect(told.problems).toEqual([{ field: "birthDate", rule }, { field: "other" }]);
});

test("of many problems the first ten are told", () => {
  const many = Array.from({ length: 50 }, () => problems[0] ?? { field: "", rule: "", kind: "" });
  expect(rejectionOf({ at: 1, reason: "invalid", problems: many }).problems).toHaveLength(10);
});
