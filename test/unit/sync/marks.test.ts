import { describe, expect, it } from "vitest";
import { FIELDS_OF } from "../../../src/core/service-spec/business-relation.ts";
import { storeRow } from "../../../src/core/state/record-store.ts";
import {
  ALWAYS_FILLED,
  fieldsOfLetters,
  lettersOf,
  OPTIONAL,
} from "../../../src/core/sync/emptied.ts";
import { fingerprintWith } from "../../../src/core/sync/fingerprint.ts";
import { rowOf } from "../../../src/core/sync/ledger-row.ts";
import { changeBetween, marksWith } from "../../../src/core/sync/marks.ts";

type Body = Readonly<Record<string, unknown>>;

const KEY = Buffer.alloc(32, 7);
const PERSON = { type: "Person", crmCode: "p1", firstName: "Ada", lastName: "Muster" };

const rowWith = (secret: Buffer | string, body: Body) =>
  rowOf({ ...PERSON, ...body }, 0, fingerprintWith(KEY, {}, marksWith(secret)));
const row = (body: Body) => rowWith(KEY, body);
const between = (before: Body, after: Body) => changeBetween(row(before), row(after));

const fields = [...new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company])];

it("has a letter and a mark for each field but the crmCode, which never changes", () => {
  const marked = [...OPTIONAL, ...ALWAYS_FILLED];
  expect(marked.toSorted()).toEqual(fields.filter((field) => field !== "crmCode").toSorted());
  expect(new Set(lettersOf(marked)).size).toBe(marked.length);
  expect(fieldsOfLetters(lettersOf(marked))).toEqual(marked);
});

describe("changeBetween", () => {
  it("names exactly the fields that differ, and those that have no value any more", () => {
    const before = { email: "a@b.ch", phoneNumber: "1", city: "Trier", service: ["b", "a"] };
    const after = { email: "c@d.ch", phoneNumber: "", city: "Trier", service: ["a", "b"] };
    expect(between(before, { ...after, address: "x" })).toEqual({
      changed: ["address", "email", "phoneNumber"],
      emptied: ["phoneNumber"],
    });
    expect(between({}, { lastName: "Meister" })).toEqual({ changed: ["lastName"], emptied: [] });
  });

  it("takes a default for the value that it is", () => {
    expect(between({ amlFrequency: "yearly", city: "a" }, { city: "b" })).toEqual({
      changed: ["amlFrequency", "city"],
      emptied: [],
    });
    expect(between({ city: "a" }, { city: "b", amlFrequency: "ongoing" })?.changed).toEqual([
      "city",
    ]);
  });

  it.each(fields.filter((field) => field !== "crmCode" && field !== "type"))(
    "tells that only %s has changed",
    (field) => {
      const type = FIELDS_OF.Person.has(field) ? "Person" : "Company";
      const before = { type, name: "Muster", [field]: "one" };
      expect(between(before, { ...before, [field]: "two" })?.changed).toEqual([field]);
    },
  );

  it("says nothing of rows without marks, of another key, or of which something newer is known", () => {
    const before = row({ city: "a" });
    const after = row({ city: "b" });
    expect(changeBetween(before, after)?.changed).toEqual(["city"]);
    expect(changeBetween({ ...before, marks: undefined }, after)).toBeUndefined();
    expect(changeBetween(before, { ...after, marks: undefined })).toBeUndefined();
    expect(changeBetween(rowWith("another", { city: "a" }), after)).toBeUndefined();
    // As after a 409: it exists, and nobody knows with what.
    expect(changeBetween({ ...before, fingerprint: undefined }, after)).toBeUndefined();
    expect(changeBetween({ ...before, marks: before.marks?.slice(3) }, after)).toBeUndefined();
    expect(changeBetween(before, before)).toBeUndefined();
  });
});

describe("marks", () => {
  const parts = (marks: string | undefined) => marks?.match(/.{3}/g) ?? [];

  it("differ between two persons with equal values, and between two keys", () => {
    const body = { birthDate: "1979-03-04", nationality: "LU", city: "Trier" };
    const [keyId, ...own] = parts(row(body).marks);
    const [sameKey, ...others] = parts(row({ ...body, crmCode: "p2" }).marks);
    const [otherKey, ...rekeyed] = parts(rowWith("another", body).marks);
    expect(keyId).toBe(sameKey);
    expect(keyId).not.toBe(otherKey);
    expect(own).toHaveLength(9);
    for (const [at, mark] of own.entries()) {
      expect([others[at], rekeyed[at]]).not.toContain(mark);
    }
  });

  it("of two fields with one value are different", () => {
    const marks = parts(row({ fiscalCountry: "LU", countryOfResidence: "LU" }).marks);
    expect(new Set(marks).size).toBe(marks.length);
  });

  it.each(["Person", "Company"] as const)(
    "take at most 200 bytes of a %s with all fields",
    (type) => {
      const all = Object.fromEntries([...FIELDS_OF[type]].map((field) => [field, "x"]));
      const full = rowOf({ ...all, type }, 0, fingerprintWith(KEY, {}, marksWith(KEY)));
      const bare = rowOf({ ...all, type }, 0, fingerprintWith(KEY));
      const bytes = storeRow(full, 0).length - storeRow(bare, 0).length;
      expect(bytes).toBeGreaterThan(60);
      expect(bytes).toBeLessThanOrEqual(200);
    },
  );

  it("has none of a body whose type nobody knows, and none where they are not kept", () => {
    expect(marksWith(KEY)({ type: "Robot" })).toBeUndefined();
    expect(rowOf(PERSON, 0, fingerprintWith(KEY)).marks).toBeUndefined();
  });
});
