/** Related records in a mapping file (`with`): what is known of them, and mistakes. */
import { describe, expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type { CrmRecord } from "../../../src/intake/mapping/mapping.ts";
import {
  examineMappingFile,
  readMappingFile,
} from "../../../src/intake/mapping/read-mapping-file.ts";

const fileWith = (relations: string) => `version: 1
ignore: [task]
objects:
  - object: contact
    crmCode: $event.recordId
    with:
${relations.replaceAll(/^/gm, "      ")}
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      city: company.town
      taxIdentificationNumber: kyc[state = "open"].number
      postalCode: zip
`;

const COMPILED = compileMapping(
  readMappingFile(
    fileWith(
      "company: { object: account, by: account.id }\nkyc: { object: kyc, of: owner, many: true }",
    ),
    "m.yaml",
  ),
);

/** The fields that were made, and those that are not known. */
async function mapped(related: CrmRecord, partial: boolean) {
  const event = { type: "crm.record.updated", source: "/x", subject: "contact/7" };
  const context = { ...event, object: "contact", recordId: "7", partial };
  const record = { first: "Ada", last: "Muster", zip: null, ...related };
  const result = await mapRecord(COMPILED, context, record);
  if (result.kind !== "mapped") throw new Error(JSON.stringify(result));
  const { city, taxIdentificationNumber: tax } = result.candidate ?? {};
  const unknown = result.warnings.map(({ field, reason }) => `${field} ${reason}`);
  return { city, tax, unknown };
}

const OPEN = { state: "open", number: "1", owner: "7" };

describe.for([true, false])("a record with partial: %s", (partial) => {
  test("a related record that was not read is not empty, one that does not exist is", async () => {
    expect(await mapped({ company: { town: "Bern" }, kyc: [OPEN] }, partial)).toEqual({
      city: "Bern",
      tax: "1",
      unknown: [],
    });
    expect((await mapped({}, partial)).unknown).toEqual([
      "city not_carried",
      "taxIdentificationNumber not_carried",
    ]);
    const gone = { city: undefined, tax: undefined, unknown: [] };
    expect(await mapped({ company: null, kyc: [] }, partial)).toEqual(gone);
    expect(
      await mapped({ company: { town: null }, kyc: [{ ...OPEN, number: null }] }, partial),
    ).toEqual(gone);
  });
});

test("a field that a related record of the CRM lacks is not empty", async () => {
  const { unknown } = await mapped({ company: {}, kyc: [{ state: "open" }] }, true);
  expect(unknown).toEqual(["city not_carried", "taxIdentificationNumber not_carried"]);
  expect((await mapped({ company: {}, kyc: [{ state: "open" }] }, false)).unknown).toEqual([]);
});

test("fields that lead to related records are read, too", () => {
  expect([...COMPILED.names]).toEqual(expect.arrayContaining(["account", "id", "owner", "town"]));
  expect(COMPILED.relations).toMatchObject([
    { owners: ["contact"], name: "company", object: "account", many: false, isPart: false },
    { owners: ["contact"], name: "kyc", object: "kyc", many: true, of: "owner", isPart: true },
  ]);
});

test.for([
  [
    "company: { objct: account, by: a }",
    /with\.company\.objct: is not a known key here; did you mean object\?/,
  ],
  ["company: { by: a }", /with\.company\.object: is missing/],
  [
    "company: { object: account, of: 5 }",
    /with\.company\.of: must be the name of a field, or true/,
  ],
  ["company: { object: account, many: yes }", /with\.company\.many: must be true or false/],
  [
    "my-company: { object: account, by: a }",
    /with\.my-company: must be a name of letters, digits and _/,
  ],
  ["company: { object: account, by: a, many: true }", /`by` leads to one record: remove `many`/],
  [
    "company: { object: account, by: a, of: b }",
    /two ways to find it: remove one of them; .* write `of: true`/,
  ],
  ["company: { object: Task, of: b }", /Task is also listed under `ignore`: remove it there/],
] as const)("%s is a mistake", ([relation, expected]) => {
  const { problems } = examineMappingFile(fileWith(relation), "m.yaml");
  expect(problems.join("\n")).toMatch(expected);
  expect(problems).toHaveLength(1);
});

test("rules of one object agree on a relation, and `of` needs one object", () => {
  const rule = (object: string, relation: string) => `
  - object: ${object}
    when: kind = "${object.length}"
    crmCode: $event.recordId
    with: { company: { object: account, ${relation} } }
    fields: { type: { value: Person }, firstName: a, lastName: b }`;
  const problemsOf = (...rules: string[]) =>
    examineMappingFile(`version: 1\nobjects:${rules.join("")}\n`, "m.yaml").problems.join("\n");
  expect(problemsOf(rule("contact", "by: a"), rule("Contact", "by: b"))).toMatch(
    /m\.yaml:6: contact, with\.company: all rules of the object must say the same of it/,
  );
  expect(problemsOf(rule("contact", "by: a"), rule("lead", "by: b"))).toBe("");
  expect(problemsOf(rule("[contact, lead]", "of: a"))).toMatch(
    /`of` needs one object, .*contact, lead/,
  );
});
