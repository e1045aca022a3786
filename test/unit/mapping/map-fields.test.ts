/** What becomes of single fields: which are required, which value wins, what a problem says. */
import { expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import {
  NO_LISTS,
  tenantListsOf,
  type TenantLists,
} from "../../../src/core/service-spec/tenant-lists.ts";
import { FIELD_MAX_LENGTH } from "../../../src/core/sync/mapped.ts";

const CONTEXT = {
  type: "crm.record.updated",
  object: "contact",
  source: "/x",
  recordId: "7",
  subject: "contact/7",
};

const PERSON = "type: { value: Person }, firstName: first, lastName: last";
const GOOD = { id: "7", first: "Ada", last: "Muster" };

async function map(fields: string, record: object, lists: TenantLists = NO_LISTS) {
  const file = `version: 1
objects: [{ object: contact, crmCode: id, fields: { ${fields} } }]
`;
  const mapping = compileMapping(readMappingFile(file, "m.yaml"));
  return mapRecord(mapping, CONTEXT, { ...GOOD, ...record }, { explain: true, lists });
}

test("a type that is none of the specification's has a problem that says so", async () => {
  const mapped = await map("type: type, firstName: first, lastName: last", { type: "Robot" });
  expect(mapped).toMatchObject({
    kind: "unmappable",
    problems: [
      {
        field: "type",
        rule: "is required: the service does not allow this value",
        kind: "a string of 5 characters",
      },
    ],
  });
});

test.for([
  ["Nachname", {}, "nothing: the mapping reads `Nachname`, which the record lacks"],
  [
    "{ from: Name.Nachname, fallback: lastname }",
    { Name: {} },
    "nothing: the mapping reads `Name.Nachname`, `lastname`, which the record lacks",
  ],
  // Empty there, and not named wrongly.
  ["Nachname", { Nachname: null }, "nothing"],
  ["{ from: Nachname, fallback: lastname }", { Nachname: "" }, "nothing"],
] as const)(
  "a required field of %s names what the record lacks: %j",
  async ([from, record, kind]) => {
    const fields = `type: { value: Person }, firstName: first, lastName: ${from}`;
    expect(await map(fields, record)).toMatchObject({
      kind: "unmappable",
      problems: [{ field: "lastName", rule: "is required", kind }],
    });
  },
);

test("a required field without a rule is a problem of each record of its variant", async () => {
  const fields = "type: type, firstName: first, lastName: last";
  expect(await map(fields, { type: "Person" })).toMatchObject({ kind: "mapped" });
  expect(await map(fields, { type: "Trust" })).toMatchObject({
    kind: "unmappable",
    problems: [{ field: "name", rule: "is required", kind: "nothing" }],
  });
});

test("a name of the record is not replaced by the composed one", async () => {
  const fields = `${PERSON}, name: name`;
  expect(await map(fields, { name: "Countess" })).toMatchObject({
    candidate: { name: "Countess" },
  });
  expect(await map(fields, {})).toMatchObject({ candidate: { name: "Ada Muster" } });
});

test("a field that the variant does not have is not required", async () => {
  const fields =
    "type: type, firstName: first, lastName: last, name: last, vatNumber: { from: vat, required: true }";
  expect(await map(fields, { type: "Person" })).toMatchObject({ kind: "mapped" });
  expect(await map(fields, { type: "Trust" })).toMatchObject({ kind: "unmappable" });
});

test("a required field whose expression failed: the problem has nothing of the record", async () => {
  const fields = "type: { value: Person }, firstName: first, lastName: $string($number(last))";
  expect(await map(fields, {})).toMatchObject({
    kind: "unmappable",
    problems: [
      {
        field: "lastName",
        rule: "is required: the expression failed on this record",
        kind: "nothing",
      },
    ],
  });
});

test("a telephone number without a prefix is of the first country that the record has", async () => {
  const fields = `${PERSON}, phoneNumber: phone, countryOfResidence: home, fiscalCountry: tax`;
  const phone = "621 555 014";
  const candidate = { phoneNumber: "+352621555014" };
  expect(await map(fields, { phone, tax: "LU" })).toMatchObject({ candidate });
  expect(await map(fields, { phone, home: "LU", tax: "CH" })).toMatchObject({ candidate });
});

test("a text, or a list as a whole, is left out when it is too long", async () => {
  const fields = `${PERSON}, city: city, branch: branch`;
  const half = FIELD_MAX_LENGTH / 2;
  const [city, branch] = ["c".repeat(FIELD_MAX_LENGTH), ["a".repeat(half), "b".repeat(half)]];
  expect(await map(fields, { city, branch })).toMatchObject({ candidate: { city, branch } });
  const mapped = await map(fields, { city: `${city}c`, branch: [...branch, "c"] });
  expect(mapped).toMatchObject({
    warnings: [
      { field: "city", reason: "not_accepted" },
      { field: "branch", reason: "not_accepted" },
    ],
  });
  expect(mapped).not.toHaveProperty("candidate.city");
  expect(mapped).not.toHaveProperty("candidate.branch");
});

const LISTS = tenantListsOf(
  { branch: { values: ["geneva", "Zürich"], multiSelect: false }, service: { values: ["gold"] } },
  { service: { at: 0, values: ["silver"] } },
);

test.for([
  ["branch: b", "Zurich", ["Zürich"], []],
  ["branch: b", "Lugano", undefined, ["not_in_tenant_list"]],
  ["branch: { from: b, default: GENEVA }", "Lugano", ["geneva"], ["not_in_tenant_list"]],
  ["branch: { from: b, default: Basel }", "Lugano", undefined, ["not_in_tenant_list"]],
  [
    "branch: { from: b, fallback: c, required: true }",
    "Lugano",
    ["geneva"],
    ["not_in_tenant_list"],
  ],
  ["branch: { from: b, default: geneva }", "geneva;zurich", ["geneva"], ["too_many"]],
  ["branch: { value: Basel, default: geneva }", "", ["geneva"], ["not_in_tenant_list"]],
  // The check of the payload then rejects it by the list, so that it is redriven once the list has the value.
  ["branch: { from: b, required: true }", "Lugano", ["Lugano"], []],
  ["branch: { from: b, required: true, default: Basel }", "Lugano", ["Lugano"], []],
  ["branch: { from: b, required: true }", "geneva;zurich", ["geneva", "zurich"], []],
] as const)("a list's values: %s of %s", async ([fields, b, branch, reasons]) => {
  const mapped = await map(`${PERSON}, ${fields}`, { b, c: "Geneva" }, LISTS);
  if (mapped.kind !== "mapped") throw new Error(mapped.kind);
  expect(mapped.candidate?.["branch"]).toEqual(branch);
  expect([...new Set(mapped.warnings.map(({ reason }) => reason))]).toEqual(reasons);
});

test("a required field that the record does not have is required, whatever the list has", async () => {
  const mapped = await map(`${PERSON}, branch: { from: b, required: true }`, {}, LISTS);
  expect(mapped).toMatchObject({ kind: "unmappable", problems: [{ field: "branch" }] });
});

test("of several items, one that the list had before is told apart: the service may have it", async () => {
  const mapped = await map(`${PERSON}, service: s`, { s: "gold; Silver; bronze" }, LISTS);
  expect(mapped).toMatchObject({
    candidate: { service: ["gold"] },
    warnings: [
      { field: "service", reason: "no_longer_listed", value: "Silver" },
      { field: "service", reason: "not_in_tenant_list", value: "bronze" },
    ],
  });
});
