import { expect, it } from "vitest";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";

const sent = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M", service: ["b", "a"] };

it("ignores key order, list order, defaults, empty values and unspecified fields", () => {
  const listed = {
    lastName: "M",
    firstName: "Ada",
    crmCode: "1",
    type: "Person",
    service: ["a", "b"],
    relationshipStatus: "Client",
    relationStatus: "active",
    amlFrequency: "ongoing",
    email: null,
    city: "",
    branch: [],
    createdAt: "2026-01-01",
  };
  expect(fingerprintOf(listed)).toBe(fingerprintOf(sent));
});

it.each([
  { firstName: "Eda" },
  { relationStatus: "terminated" },
  { service: ["a"] },
  { city: "Bern" },
])("differs by %o", (change) => {
  expect(fingerprintOf({ ...sent, ...change })).not.toBe(fingerprintOf(sent));
});

it("has none for a type that the spec does not know", () => {
  expect(fingerprintOf({ type: "Alien" })).toBeUndefined();
});
