/** What becomes of single fields: which are required, which value wins, what a problem says. */
import { expect, test } from "vitest";
import { compileMapping } from "../../../src/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/mapping/map-record.ts";
import { readMappingFile } from "../../../src/mapping/read-mapping-file.ts";
import { FIELD_MAX_LENGTH } from "../../../src/sync/limits.ts";

const CONTEXT = {
  type: "crm.record.updated",
  object: "contact",
  source: "/x",
  recordId: "7",
  subject: "contact/7",
};

const PERSON = "type: { value: Person }, firstName: first, lastName: last";
const GOOD = { id: "7", first: "Ada", last: "Muster" };

async function map(fields: string, record: object) {
  const file = `version: 1
objects: [{ object: contact, crmCode: id, fields: { ${fields} } }]
`;
  const mapping = compileMapping(readMappingFile(file, "m.yaml"));
  return mapRecord(mapping, CONTEXT, { ...GOOD, ...record }, { explain: true });
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
