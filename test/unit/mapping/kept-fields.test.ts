/** `owned: false` and `fill: empty` in mapping files, and the same of modules. */
import { expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { keepsOfFile, keepsOfModule } from "../../../src/intake/mapping/keeps-of-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import {
  examineMappingFile,
  readMappingFile,
} from "../../../src/intake/mapping/read-mapping-file.ts";
import { personMapping } from "../../support/person-mapping.ts";

const problemsOf = (...lines: string[]) =>
  examineMappingFile(personMapping(...lines), "m.yaml").problems;
const keepsOf = (text: string) => keepsOfFile(readMappingFile(text, "m.yaml"));

test("A field is left to others with a value, or without one", () => {
  const text = personMapping(
    "branch: { owned: false }",
    "relationshipStatus: { from: stage, owned: false }",
    "phoneNumber: { from: tel, fill: empty }",
    "city: { from: town, owned: true }",
  );
  expect(keepsOf(text)).toEqual({
    Person: { branch: "always", relationshipStatus: "always", phoneNumber: "ifPresent" },
  });
  expect(keepsOf(personMapping("city: town"))).toEqual({});
});

test("A field that the service requires is only filled: without it nothing could be sent", () => {
  const text = personMapping("name: { from: full, owned: false }").replace(
    "lastName: lastName",
    "lastName: { from: lastName, owned: false }",
  );
  expect(keepsOf(text)).toEqual({ Person: { name: "always", lastName: "ifPresent" } });
});

test("A rule whose type is open counts for both variants, as far as they have the field", () => {
  const text = personMapping("vatNumber: { from: vat, owned: false }", "city: { owned: false }")
    .replace("{ value: Person }", "{ from: kind }")
    .replace("      firstName", "      name: full\n      firstName");
  expect(keepsOf(text)).toEqual({
    Person: { city: "always" },
    Company: { vatNumber: "always", city: "always" },
  });
});

test.for([
  ["relationStatus: { from: s, owned: false }", /owned: relationStatus cannot be left to others/],
  ["relationshipStatus: { from: s, fill: empty }", /fill: .*always has a value.*`owned: false`/],
  ["city: { from: a, owned: false, fill: empty }", /fill: has no effect beside `owned: false`/],
  ["city: { fill: empty }", /city: needs `from`/],
  ["city: { from: a, fill: always }", /fill: must be one of empty/],
  ["city: { from: a, owned: maybe }", /owned: must be true or false/],
  ["city: { from: a, ownd: false }", /ownd: is not a known key here; did you mean owned\?/],
] as const)("A mistake names its line and the remedy: %s", ([line, expected]) => {
  const problems = problemsOf(line);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(/^m\.yaml:9: /);
  expect(problems[0]).toMatch(expected);
});

test("The type is never left to others", () => {
  const text = personMapping().replace("{ value: Person }", "{ value: Person, owned: false }");
  expect(examineMappingFile(text, "m.yaml").problems).toEqual([
    expect.stringMatching(/^m\.yaml:6: .*type cannot be left to others.*remove `owned`/),
  ]);
});

test("A required field without a value is a mistake, and so are rules that differ", () => {
  const nothing = personMapping().replace("lastName: lastName", "lastName: { owned: false }");
  expect(examineMappingFile(nothing, "m.yaml").problems).toEqual([
    expect.stringMatching(/^m\.yaml:8: .*needs `from` or `value` as well.*requires lastName/),
  ]);
  const second = personMapping("city: town").split("\n").slice(2).join("\n");
  const two =
    personMapping("city: { from: town, owned: false }") + second.replace("contact", "lead");
  expect(examineMappingFile(two, "m.yaml").problems).toEqual([
    expect.stringMatching(/^m\.yaml:16: lead, fields\.city: must say the same .* of contact/),
  ]);
  // A rule that does not map the field says nothing of it.
  const silent = personMapping().split("\n").slice(2).join("\n").replace("contact", "lead");
  const text = personMapping("city: { from: town, owned: false }") + silent;
  expect(keepsOf(text)).toEqual({ Person: { city: "always" } });
});

test("A record without a value that the creation needs becomes a dead letter that says so", async () => {
  const text = personMapping().replace("lastName: lastName", "lastName: { from: l, fill: empty }");
  const compiled = compileMapping(readMappingFile(text, "m.yaml"));
  const event = {
    type: "crm.record.updated",
    source: "/crm",
    subject: "contact/1",
    object: "contact",
    recordId: "1",
  };
  expect(await mapRecord(compiled, event, { firstName: "Ada" })).toMatchObject({
    kind: "unmappable",
    problems: [{ field: "lastName", rule: "is required to create the relation" }],
  });
});

test("A module lists its fields, and each mistake is named", () => {
  expect(keepsOfModule({ notOwned: ["branch"], fillEmpty: ["vatNumber"] }, "m.ts")).toEqual({
    Person: { branch: "always" },
    Company: { branch: "always", vatNumber: "ifPresent" },
  });
  expect(keepsOfModule({}, "m.ts")).toEqual({});
  const wrong = { notOwned: ["brnch", "type", "city"], fillEmpty: ["city", "amlFrequency"] };
  expect(() => keepsOfModule(wrong, "m.ts")).toThrow(
    /no field brnch; did you mean branch\?[^]*type cannot be kept[^]*city is listed under notOwned as well[^]*always has a value of amlFrequency/,
  );
  expect(() => keepsOfModule({ notOwned: "branch" as never }, "m.ts")).toThrow(/must be a list/);
});
