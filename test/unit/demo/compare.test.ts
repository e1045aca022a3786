import { expect, test } from "vitest";
import { compare } from "../../../src/demo/compare.ts";
import type { Expected } from "../../../src/demo/crm.ts";

const ada = {
  type: "Person",
  crmCode: "1",
  firstName: "Ada",
  lastName: "Muster",
  service: ["a", "b"],
};
const filledIn = {
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
};

const crm = (expected: Partial<Expected> = {}): Map<string, Expected> =>
  new Map([["1", { relation: ada, mayBeAbsent: false, ...expected }]]);

test("ignores defaults that the service fills in, and the order of a list", () => {
  expect(compare(crm(), [{ ...ada, ...filledIn, service: ["b", "a"] }])).toEqual([]);
});

test.each([
  ["a field that differs", { ...ada, ...filledIn, lastName: "Alt" }, "lastName"],
  ["an unexpected field", { ...ada, ...filledIn, maidenName: "Alt" }, "maidenName"],
  ["a missing field", { ...ada, ...filledIn, service: undefined }, "service"],
  ["a status", { ...ada, ...filledIn, relationStatus: "terminated" }, "relationStatus"],
])("%s is reported", (_, relation, field) => {
  expect(compare(crm(), [relation])).toMatchObject([{ crmCode: "1", field }]);
});

test("a missing relation is reported, unless it may be absent", () => {
  expect(compare(crm(), [])).toEqual([{ crmCode: "1", crm: "present", service: "absent" }]);
  expect(compare(crm({ mayBeAbsent: true }), [])).toEqual([]);
});

test("a relation of a record that was never valid, or never existed, is reported", () => {
  const relation = { ...ada, ...filledIn };
  expect(compare(crm({ relation: undefined, mayBeAbsent: true }), [relation])).toHaveLength(1);
  expect(compare(new Map(), [relation])).toHaveLength(1);
});

test("a deleted client must be terminated with the fields it had", () => {
  const deleted = crm({ relation: { ...ada, relationStatus: "terminated" }, mayBeAbsent: true });
  expect(compare(deleted, [{ ...ada, ...filledIn, relationStatus: "terminated" }])).toEqual([]);
  expect(compare(deleted, [{ ...ada, ...filledIn }])).toMatchObject([{ field: "relationStatus" }]);
});
