import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, expectTypeOf, test } from "vitest";
import type { z } from "zod";
import {
  FIELDS_OF,
  type companySchema,
  type personSchema,
} from "../../../src/service-spec/business-relation.ts";
import { FIELD_NAMES } from "../../../src/mapping/fields.ts";
import type { FieldName } from "../../../src/mapping/map-module.ts";
import { mappingJsonSchema } from "../../../src/mapping/mapping-file.ts";
import { MappingError } from "../../../src/mapping/mapping.ts";
import { readMappingFile } from "../../../src/mapping/read-mapping-file.ts";

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

test("every preset is good, and the published schema is that of the code", () => {
  const files = readdirSync(PRESETS).filter((file) => file.endsWith(".yaml"));
  expect(files.length).toBeGreaterThanOrEqual(7);
  for (const file of files) readMappingFile(readFileSync(join(PRESETS, file), "utf8"), file);
  const published = readFileSync(join(PRESETS, "mapping.schema.json"), "utf8");
  expect(JSON.parse(published)).toEqual(JSON.parse(JSON.stringify(mappingJsonSchema())));
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
    /m\.yaml:11: contact, fields\.email\.form: is not known here; did you mean from\?/,
  ],
  ["email: { required: yes }", /fields\.email\.required: must be true or false/],
  ["email: { required: true }", /fields\.email: needs `from` \(an expression\) or `value`/],
  ["email: { from: a, value: b@c.de }", /keep one of them/],
  ["email: $lowercas(a)", /there is no \$lowercas; did you mean \$lowercase\?/],
  [
    "email: a.(",
    /m\.yaml:11: contact, fields\.email: the expression cannot be used: .* \(at character 3\)/,
  ],
  ["email: $eval(a)", /\$eval is not allowed/],
  ["email: ($f := $eval; $f(a))", /\$eval is not allowed/],
  [
    "city: 'a = null ? b'",
    /what is null in the record counts as missing here: write \$exists\(a\)/,
  ],
  ["birthDate: $now()", /\$now is not allowed: the result must not depend on when/],
  [
    "relationshipStatus: Client",
    /Client would be read as the name of a CRM field; the constant is \{ value: Client \}/,
  ],
  ["relationshipStatus: { value: Clinet }", /Clinet is none of Client, .*; did you mean Client\?/],
  [
    "relationshipStatus: { from: a, table: stage }",
    /there is no table stage; did you mean stages\?/,
  ],
  [
    "maritalStatus: { from: a, table: { m: Maried } }",
    /m\.yaml:11: .*table\.m: Maried is none of .*did you mean Married\?/,
  ],
  ["nationality: { value: Atlantis }", /Atlantis is no value that nationality can have/],
  ["vatNumber: a", /is a field of companies only/],
  ["birthDate: { from: a, as: country }", /this field takes a date: leave `as` out/],
  ["birthDate: { from: a, format: day/month }", /must be made of YYYY, MM and DD/],
  ["city: { from: a, separator: ',' }", /is for fields that are lists/],
  ["phoneNumber: { from: a, country: Lux }", /must be a code such as LU/],
  ["crmCode: a", /crmCode: stands beside `fields`, not in it/],
  ["email: 'x", /^m\.yaml:\d+: a quote that was opened is not closed/],
  [`email: "a" & b`, /single quotes as a whole/],
  ["email: a\nemail: b", /m\.yaml:1[12]: Map keys must be unique/],
] as const)("%s is told with its place and what to do", ([lines, expected]) => {
  const problems = problemsOf(rule(lines));
  expect(problems.join("\n")).toMatch(expected);
});

test("all faults of a file are told at once, in the order of its lines", () => {
  const problems = problemsOf(rule("email: $now()\ncity: $foo()\nvatNumber: x"));
  expect(problems.map((problem) => Number(/:(\d+):/.exec(problem)?.[1]))).toEqual([11, 12, 13]);
});

test.for([
  ["", "it is no mapping: it must be a block of keys, version and objects"],
  ["version: 1", "objects: is missing"],
  ["version: 2\nobjects: []", "version: must be there, and be 1"],
  ["version: 1\nobjects: []", "objects: must not be empty"],
  ["version: 1\nobjects:\n  - object: a\n    crmCode: id\n    fields: {}", "`type` is missing"],
  [
    "version: 1\nobjects:\n  - object: a\n    crmCode: id\n    fields: { type: { value: Trust } }",
    "`name` is missing: the service requires it",
  ],
] as const)("a file that is not a mapping: %s", ([text, expected]) => {
  expect(problemsOf(text).join("\n")).toContain(expected);
});

test("a condition that would leave out what it does not mean to is told", () => {
  const text = rule("").replace("crmCode:", 'when: status != "draft"\n    crmCode:');
  expect(problemsOf(text).join("\n")).toContain("write $not(a = b)");
});

test("a key that is the same for every record is told", () => {
  const text = rule("").replace("crmCode: $event.recordId", `crmCode: '"acme"'`);
  expect(problemsOf(text).join("\n")).toContain("it is the same for every record");
});

test("a type that is none is told alone, not as faults of all the other fields", () => {
  const text = rule("").replace(
    "{ value: Person }",
    "{ from: kind, table: { p: Persn, c: Trust } }",
  );
  expect(problemsOf(text)).toEqual([expect.stringContaining("did you mean Person?")]);
});

test("a rule that can never be used is told, and an object that is also ignored", () => {
  const again = `${rule("")}  - object: Contact
    crmCode: id
    fields: { type: { value: Trust }, name: a }
ignore: [contact]
`;
  const told = problemsOf(again).join("\n");
  expect(told).toContain("is never used: an earlier rule takes every Contact");
  expect(told).toContain("contact is also under `ignore`");
});
