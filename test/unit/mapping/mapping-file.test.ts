import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, expectTypeOf, test } from "vitest";
import type { z } from "zod";
import {
  FIELDS_OF,
  type companySchema,
  type personSchema,
} from "../../../src/core/service-spec/business-relation.ts";
import { mappingJsonSchema } from "../../../deploy/mapping-schema.ts";
import { FIELD_NAMES } from "../../../src/intake/mapping/fields.ts";
import type { FieldName } from "../../../src/intake/mapping/map-module.ts";
import { mappingWarnings } from "../../../src/intake/mapping/mapping-warnings.ts";
import { MappingError } from "../../../src/intake/mapping/mapping.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";

const PRESETS = join(import.meta.dirname, "../../../mappings");

function problemsOf(text: string): readonly string[] {
  try {
    readMappingFile(text, "m.yaml");
    return [];
  } catch (error) {
    if (error instanceof MappingError) return error.problems;
    throw error;
  }
}

const rule = (lines: string) => `version: 1
tables:
  stages: { customer: Client }
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: a
      lastName: b
${lines.replaceAll(/^/gm, "      ")}
`;

test("every preset is valid, and mapping.schema.json matches the code", () => {
  const files = readdirSync(PRESETS).filter((file) => /^\w+\.yaml$/.test(file));
  expect(files.length).toBeGreaterThanOrEqual(7);
  for (const file of files) {
    const preset = readMappingFile(readFileSync(join(PRESETS, file), "utf8"), file);
    expect(mappingWarnings(preset)).toEqual([]);
  }
  const published = readFileSync(join(PRESETS, "mapping.schema.json"), "utf8");
  expect(JSON.parse(published)).toEqual(JSON.parse(JSON.stringify(mappingJsonSchema())));
});

test("keys are texts as the file writes them", () => {
  const text = rule(
    "maritalStatus: { from: m, table: { 01: Single, 1: Married, 1e3: Divorced, 010: Other } }",
  );
  const [first] = readMappingFile(text, "m.yaml").objects;
  const { table } = first?.fields["maritalStatus"] ?? {};
  expect(table).toEqual({ "01": "Single", "1": "Married", "1e3": "Divorced", "010": "Other" });
});

test("all fields of both variants can be mapped", () => {
  const all = new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company, "crmCode"]);
  expect(new Set([...FIELD_NAMES, "crmCode"])).toEqual(all);
  type Known = keyof z.output<typeof personSchema> | keyof z.output<typeof companySchema>;
  expectTypeOf<FieldName>().toEqualTypeOf<Exclude<Known, "crmCode">>();
});

test.for([
  [
    "fristName: a",
    /^m\.yaml:11: contact, fields\.fristName: the service has no field of this name; did you mean firstName\?$/,
  ],
  [
    "email: { form: a }",
    /m\.yaml:11: contact, fields\.email\.form: is not a known key here; did you mean from\?/,
  ],
  ["email: { required: yes }", /fields\.email\.required: must be true or false/],
  ["email: { required: true }", /fields\.email: needs `from` \(an expression\) or `value`/],
  ["email: { from: a, value: b@c.de }", /remove one of the two/],
  ["email: $lowercas(a)", /there is no \$lowercas; did you mean \$lowercase\?/],
  [
    "email: a.(",
    /m\.yaml:11: contact, fields\.email: the expression is not valid: .* \(at character 3\)/,
  ],
  ["email: $eval(a)", /\$eval is not allowed/],
  ["email: ($f := $eval; $f(a))", /\$eval is not allowed/],
  ["city: 'a = null ? b'", /null in the record counts as missing here: write \$exists\(a\)/],
  ["birthDate: $now()", /\$now is not allowed: the result must not depend on the time/],
  [
    "relationshipStatus: Client",
    /Client is read as the name of a CRM field; for the constant write \{ value: Client \}/,
  ],
  [
    "relationshipStatus: { value: Clinet }",
    /Clinet is not one of Client, .*; did you mean Client\?/,
  ],
  [
    "relationshipStatus: { from: a, table: stage }",
    /there is no table stage; did you mean stages\?/,
  ],
  [
    "maritalStatus: { from: a, table: { m: Maried } }",
    /m\.yaml:11: .*table\.m: Maried is not one of .*did you mean Married\?/,
  ],
  ["nationality: { value: Atlantis }", /Atlantis is not a valid value of nationality/],
  ["vatNumber: a", /only companies have this field/],
  ["birthDate: { from: a, as: country }", /this field takes a date: remove `as`/],
  ["birthDate: { from: a, format: day/month }", /must consist of YYYY, MM and DD/],
  ['birthDate: { from: a, format: "MMM DD, YYYY" }', /must consist of YYYY, MM and DD/],
  ["birthDate: { from: a, format: DD.MM.YYYY HH:mm }", /must consist of YYYY, MM and DD/],
  ["city: { from: a, separator: ',' }", /only fields that are lists have a separator/],
  ["phoneNumber: { from: a, country: Lux }", /must be a country code such as LU/],
  ["crmCode: a", /crmCode: belongs beside `fields`, not in it/],
  ["email: 'x", /^m\.yaml:\d+: a quote is not closed/],
  [`email: "a" & b`, /the whole expression in single quotes/],
  ["email: a\nemail: b", /m\.yaml:1[12]: this key occurs twice; keys must be unique/],
] as const)("%s is reported with its place and what to do", ([lines, expected]) => {
  const problems = problemsOf(rule(lines));
  expect(problems.join("\n")).toMatch(expected);
});

test("all mistakes of a file are reported at once, in the order of its lines", () => {
  const problems = problemsOf(rule("email: $now()\ncity: $foo()\nvatNumber: x"));
  expect(problems.map((problem) => Number(/:(\d+):/.exec(problem)?.[1]))).toEqual([11, 12, 13]);
});

test.for([
  ["", "this is not a mapping: it must be a block with the keys version and objects"],
  ["version: 1", "objects: is missing"],
  ["version: 2\nobjects: []", "version: must be 1: write `version: 1`"],
  ["version: 1\nobjects: []", "objects: must not be empty"],
  ["version: 1\nobjects:\n  - object: a\n    crmCode: id\n    fields: {}", "`type` is missing"],
  [
    "version: 1\nobjects:\n  - object: a\n    crmCode: id\n    fields: { type: { value: Trust } }",
    "`name` is missing: the service requires it",
  ],
] as const)("a file that is not a mapping is rejected: %s", ([text, expected]) => {
  expect(problemsOf(text).join("\n")).toContain(expected);
});

test("a condition that would leave out records by accident is reported", () => {
  const text = rule("").replace("crmCode:", 'when: status != "draft"\n    crmCode:');
  expect(problemsOf(text).join("\n")).toContain("write $not(a = b)");
});

test("a key that is the same for every record is reported", () => {
  const text = rule("").replace("crmCode: $event.recordId", `crmCode: '"acme"'`);
  expect(problemsOf(text).join("\n")).toContain("it is the same for every record");
});

test("an unknown type is reported alone, without mistakes for the other fields", () => {
  const text = rule("").replace(
    "{ value: Person }",
    "{ from: kind, table: { p: Persn, c: Trust } }",
  );
  expect(problemsOf(text)).toEqual([expect.stringContaining("did you mean Person?")]);
});

test("a rule that can never be used is reported, and an object that is also ignored", () => {
  const again = `${rule("")}  - object: Contact
    crmCode: id
    fields: { type: { value: Trust }, name: a }
ignore: [contact]
`;
  const found = problemsOf(again).join("\n");
  expect(found).toContain("is never used: an earlier rule matches every Contact");
  expect(found).toContain("contact is also listed under `ignore`");
});

const withCondition = (when: string, more = "") =>
  `version: 1
objects:
  - object: contact
    when: '${when}'
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }
${more}`;

test.for([
  ["$not(is_company)", ["is_company"]],
  ["kind = 1 and $not(flags.vip)", ["flags"]],
  ['$not($contains(name, "x"))', ["name"]],
  ["$not(age > 17)", ["age"]],
  ["$not((is_company))", ["is_company"]],
  ["$not(is_company = true)", []],
  ['$not(kind in ["a", "b"])', []],
  ["$not($exists(deleted_at))", []],
  ["$not(a and b)", []],
  ["is_client", []],
] as const)(
  "the condition %s is warned of where a missing field makes it false",
  ([when, fields]) => {
    const warnings = mappingWarnings(readMappingFile(withCondition(when), "m.yaml"));
    expect(warnings).toHaveLength(fields.length);
    for (const [index, field] of fields.entries()) {
      expect(warnings[index]).toContain(
        `contact, when: $not(…) is neither true nor false if ${field}`,
      );
    }
  },
);

test("onLeave needs a condition, and one key for all rules of the object", () => {
  const leaving = (text: string) =>
    text.replace("    crmCode", "    onLeave: terminate\n    crmCode");
  expect(problemsOf(leaving(withCondition("c")))).toEqual([]);
  expect(problemsOf(leaving(withCondition("c")).replace("    when: 'c'\n", ""))).toEqual([
    "m.yaml:4: contact, onLeave: has no effect without `when`: no record leaves this rule",
  ]);
  const other = `  - object: Contact
    when: d
    crmCode: id
    fields: { type: { value: Person }, firstName: a, lastName: b }
`;
  expect(problemsOf(leaving(withCondition("c", other)))).toEqual([
    expect.stringContaining("m.yaml:5: contact, onLeave: terminate needs the same `crmCode`"),
  ]);
});

test.for([
  ["emails[primary = true].value[0]", "write emails[primary = true][0].value"],
  [
    "addresses[$not(old)].`street name`.text[-1]",
    "write addresses[$not(old)][-1].`street name`.text",
  ],
  ['$trim(addresses[type = "home"].town[0])', 'write addresses[type = "home"][0].town'],
  ["address.lines[0]", undefined],
  ["addresses[0].lines[1]", undefined],
  ["emails[primary = true][0].value", undefined],
] as const)("an index behind the field of a list's items: %s", ([text, advice]) => {
  const warnings = mappingWarnings(readMappingFile(rule(`city: '${text}'`), "m.yaml"));
  expect(warnings).toEqual(advice === undefined ? [] : [expect.stringContaining(advice)]);
});

test.for([
  ["{ unknown: null }", ["unknown"]],
  ["{ '*': Client, Other: null, other: Client, default: Client }", ["*", "Other", "default"]],
  ["{ other: Contact, 'no': null }", []],
] as const)("words of a table that mean no others: %s", ([table, words]) => {
  const file = readMappingFile(rule(`relationshipStatus: { from: a, table: ${table} }`), "m.yaml");
  const expected = words.map((word) => `${word} is only the CRM's word ${word}`);
  const warnings = mappingWarnings(file);
  expect(warnings).toEqual(expected.map((text) => expect.stringContaining(text) as string));
});

test("a webhook without operation may take deletions for updates", () => {
  const of = (more: string) => {
    const text = `${rule("city: a")}\nwebhooks: { tool: { verify: bearer${more} } }\n`;
    return mappingWarnings(readMappingFile(text, "m.yaml"));
  };
  expect(of("")).toEqual([expect.stringContaining("webhooks.tool: without `operation`")]);
  for (const more of [", operation: action", ", operation: { value: updated }", ", fetch: hubspot"])
    expect(of(more)).toEqual([]);
});
