import { describe, expect, it } from "vitest";
import { FIELDS_OF, REQUIRED_OF } from "../../../src/core/service-spec/business-relation.ts";
import {
  fieldsOfLetters,
  fieldUpdate,
  filledIn,
  isUnusual,
  OPTIONAL,
  UNKNOWN_UPDATE,
} from "../../../src/core/sync/emptied.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowOf } from "../../../src/core/sync/ledger-row.ts";

const PERSON = { type: "Person", crmCode: "p1", firstName: "Ada", lastName: "Muster" };
const known = (body: Readonly<Record<string, unknown>>) => rowOf(body, 0, fingerprintOf);

function emptiedBy(before: Readonly<Record<string, unknown>>, after: object) {
  const update = fieldUpdate({ ...PERSON, ...after }, known({ ...PERSON, ...before }));
  return update && fieldsOfLetters(update.emptied);
}

it("has a letter for each field that a relation may lack", () => {
  const optional = (["Person", "Company"] as const).flatMap((variant) =>
    [...FIELDS_OF[variant]].filter((field) => !REQUIRED_OF[variant].has(field)),
  );
  expect(new Set(OPTIONAL)).toEqual(new Set(optional));
  expect(OPTIONAL.length).toBeLessThanOrEqual(36);
});

describe("fieldUpdate", () => {
  it("names the fields that had a value and will have none", () => {
    expect(emptiedBy({ email: "a@b.ch", city: "Trier" }, { city: "Bonn" })).toEqual(["email"]);
    expect(emptiedBy({ service: ["a"] }, { service: [] })).toEqual(["service"]);
    expect(emptiedBy({ city: "Trier" }, { city: "Trier", email: "a@b.ch" })).toEqual([]);
  });

  it("counts no field that has a default, and none that is required", () => {
    expect(emptiedBy({ amlFrequency: "yearly", relationshipStatus: "Prospect" }, {})).toEqual([]);
    expect(fieldsOfLetters(filledIn({ ...PERSON, city: "Trier" }))).not.toContain("firstName");
  });

  it("says nothing of a relation that ends or of another variant, and what it does not know", () => {
    expect(emptiedBy({ email: "a@b.ch" }, { relationStatus: "terminated" })).toBeUndefined();
    expect(emptiedBy({ email: "a@b.ch" }, { type: "Company" })).toBeUndefined();
    const { filled: _, ...unknown } = known({ ...PERSON, email: "a@b.ch" });
    expect(fieldUpdate(PERSON, unknown)).toBe(UNKNOWN_UPDATE);
    expect(
      fieldUpdate(PERSON, { ...known({ ...PERSON, email: "a" }), fingerprint: undefined }),
    ).toBe(UNKNOWN_UPDATE);
    expect(fieldUpdate({ ...PERSON, relationStatus: "terminated" }, unknown)).toBeUndefined();
  });
});

it.each([
  [20, 20, 20, false],
  [21, 21, 20, true],
  [21, 209, 20, true],
  [21, 210, 20, false],
  [1, 1, 0, true],
  [900, 900, Number.POSITIVE_INFINITY, false],
])("%i of %i with a limit of %i: unusual %s", (emptied, updated, limit, expected) => {
  expect(isUnusual({ field: "email", emptied, updated }, limit)).toBe(expected);
});
