import { expect, test } from "vitest";
import { checkDeletions, mappingWarnings } from "../../../src/intake/mapping/mapping-warnings.ts";
import { examineMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";

const problemsOf = (text: string) => examineMappingFile(text, "m.yaml").problems;

/** Line and beginning of each problem. */
const shortOf = (problems: readonly string[]) =>
  problems.map((problem) => problem.replace("m.yaml:", "").replace(/^(\d+: .{1,60}).*$/, "$1"));

test("mistakes of every kind are told at once, with what was probably meant", () => {
  const problems = problemsOf(`version: 2
tabels:
  stages: { customer: Client, lead: Prospct }
objects:
  - object: contact
    wehn: is_client
    crmcode: $event.recordid
    fields:
      type: { value: Persn }
      firstname: a
      birthdate: { from: b, formt: DD/MM/YYYY, country: LU }
      city: "acme-" & x
      email: $lowercas(c) + "x"
      phoneNumber: { from: emails[0] }
\tlanguage: d
      nationality: d
      relationshipStatus: { from: s, table: stages }
      address: 'not closed
  - object: account
    crmCode: $event.recordId
    fields:
      type: { value: Company }
      vatnumber: v
      legalForm: { value: Sar1 }
      legalForm: { value: SA }
      city: 5
`);
  const expected = [
    [1, "version: must be 1"],
    [2, "tabels: is not a known key here; did you mean tables?"],
    [3, "tabels.stages.lead: Prospct is not one of .*; did you mean Prospect?"],
    [6, "contact, wehn: is not a known key here; did you mean when?"],
    [7, "contact, crmcode: is not a known key here; did you mean crmCode?"],
    [7, "contact, crmcode: .* \\$event has no recordid; did you mean recordId?"],
    [8, "contact, fields: `lastName` is missing"],
    [9, "contact, fields.type.value: Persn is not one of .*; did you mean Person?"],
    [10, "contact, fields.firstname: the service has no field .*; did you mean firstName?"],
    [11, "contact, fields.birthdate: the service has no field .*; did you mean birthDate?"],
    [11, "contact, fields.birthdate.formt: .*; did you mean format?"],
    [11, "contact, fields.birthdate.country: only telephone numbers have a country"],
    [12, "put the whole expression in single quotes"],
    [13, "contact, fields.email: .*join texts with &; and there is no \\$lowercas; did you mean"],
    [14, "put the whole expression in single quotes"],
    [15, "indent lines with spaces, not with tabs"],
    [18, "a quote is not closed"],
    [21, "account, fields: `name` is missing"],
    [23, "account, fields.vatnumber: the service has no field .*; did you mean vatNumber?"],
    [25, "this key occurs twice"],
    [26, "account, fields.city: must be an expression"],
  ] as const;
  expect(shortOf(problems)).toHaveLength(expected.length);
  for (const [index, [line, message]] of expected.entries()) {
    expect(problems[index]).toMatch(
      new RegExp(`^m\\.yaml:${line}: ${message.replaceAll(/[?]/g, "\\$&")}`),
    );
  }
});

const COLON = /after a key come a colon and a space/;
const COLUMN = /all keys of one block must begin in the same column/;
const QUOTES = /put the whole expression in single quotes/;

test.for([
  ['      city: "abc', /a quote is not closed/],
  ["      city: 'abc", /a quote is not closed/],
  ["      city: { from: x", /a bracket \(\{ or \[\) is not closed/],
  ["      city: [a, b", /a bracket \(\{ or \[\) is not closed/],
  ["\tcity: x", /indent lines with spaces/],
  ["     city: x", COLUMN],
  ["        city: x", COLUMN],
  ["      city x", COLON],
  ["      city:x", COLON],
  ["      city: *foo", QUOTES],
  ["      city: `first-name`", QUOTES],
  ["      city: !tag x", QUOTES],
  ['      city: $not(a = "x: y")', QUOTES],
  ["      - city: x", QUOTES],
  ["---", /a mapping is one document/],
] as const)("a line that is no YAML (%j) is named, and the others are checked", ([line, fault]) => {
  const problems = problemsOf(`version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: a
${line}
      lastName: b
      email: $foo(c)
`);
  expect(problems).toEqual([
    expect.stringMatching(new RegExp(`^m\\.yaml:8: ${fault.source}`)),
    expect.stringContaining("m.yaml:10: contact, fields.email: the expression is not valid"),
  ]);
});

test("a file that is far from YAML is given up in time", () => {
  const lines = ['a: "b', "x: [", "- y: 'z", "q w", ": :", "\tk: v", "*a"];
  const text = Array.from({ length: 3000 }, (_, n) => lines[(n * n) % lines.length]).join("\n");
  expect(problemsOf(`version: 1\nobjects:\n${text}`).length).toBeGreaterThanOrEqual(1);
});

const rule = (crmCode: string, more = "") => `
  - object: contact
    ${more}
    crmCode: ${crmCode}
    fields: { type: { value: Person }, firstName: a, lastName: b }`;

async function deletionMistakes(...rules: readonly string[]): Promise<readonly string[]> {
  const text = `version: 1\nobjects:${rules.join("")}\n`;
  const { file, problems } = examineMappingFile(text, "m.yaml");
  expect(problems).toEqual([]);
  const mistakes = file === undefined ? [] : await checkDeletions(file);
  return examineMappingFile(text, "m.yaml", mistakes).problems;
}

test.for([
  ["customer_no", "it reads customer_no from the record"],
  ["$.customer_no", "it reads customer_no from the record"],
  ["'$$.id & $event.recordId'", "it reads id from the record"],
  ["'$exists(no) ? no : $event.recordId'", "it reads no from the record"],
  ['\'(is_company ? "c-" : "p-") & $event.recordId\'', "it reads is_company from the record"],
  ["'($x := no; $x & \"a\")'", "it reads no from the record"],
  ["'$lookup($, \"no\")'", "it reads $ from the record"],
  ["'$event.recordId & $map([1], function($n) { $n & no })'", "it reads no from the record"],
  ["'$number($event.recordId) & $error(\"no\")'", "the expression failed"],
  ["'$match($event.recordId, /X{9}/).match'", "it gives no usable key for contact/4711"],
] as const)(
  "a crmCode that cannot be made for a deletion is refused: %s",
  async ([crmCode, why]) => {
    const [problem, ...others] = await deletionMistakes(rule(crmCode));
    expect(others).toEqual([]);
    expect(problem).toContain("m.yaml:5: contact, crmCode: cannot be made for a deletion");
    expect(problem).toContain(why);
    expect(problem).toContain("make it from $event.recordId");
  },
);

test.for([
  "$event.recordId",
  "$event.subject",
  "'\"acme-\" & $lowercase($event.recordId)'",
  "'$match($event.recordId, /[0-9a-f-]{36}/).match'",
  "'$event.(object & \"-\" & recordId)'",
  "'$event[type != \"x\"].recordId'",
  "'($id := $event.recordId; \"a\" & $id)'",
])("a crmCode of the event alone is accepted: %s", async (crmCode) => {
  expect(await deletionMistakes(rule(crmCode))).toEqual([]);
});

test("two rules of an object need one crmCode, because a deletion cannot tell which applies", async () => {
  const first = rule("'\"p-\" & $event.recordId'", "when: is_person");
  expect(await deletionMistakes(first, rule("'\"p-\" & $event.recordId'"))).toEqual([]);
  expect(await deletionMistakes(first, rule("'\"c-\" & $event.recordId'"))).toEqual([
    expect.stringContaining("the first rule of contact then makes the key"),
  ]);
});

test("keyNeedsRecord accepts a key that needs the record", async () => {
  expect(await deletionMistakes(rule("customer_no", "keyNeedsRecord: true"))).toEqual([]);
});

test("warnings are looked for in the conditions that compile", () => {
  const { file } = examineMappingFile(
    `version: 1\nobjects:${rule("$event.recordId", "when: $not(")}${rule("$event.recordId", "when: $not(a)")}\n`,
    "m.yaml",
  );
  expect(file && mappingWarnings(file)).toHaveLength(1);
});

test.for([
  ["$query.operation", 1],
  ["{ from: '$headers.`x-topic`', default: updated }", 1],
  ["$body.type", 0],
  ["{ value: deleted }", 0],
] as const)(
  "a signature that does not cover the operation %s: %s warnings",
  ([operation, warnings]) => {
    const webhook = (verify: string) => `version: 1
objects:${rule("$event.recordId")}
webhooks: { shop: { verify: ${verify}, object: { value: c }, operation: ${operation} } }
`;
    const warningsOf = (verify: string) => {
      const { file, problems } = examineMappingFile(webhook(verify), "m.yaml");
      expect(problems).toEqual([]);
      return file && mappingWarnings(file);
    };
    expect(warningsOf("{ by: hmac, header: X-Signature }")).toHaveLength(warnings);
    expect(warningsOf("bearer")).toEqual([]);
  },
);

test.each(["E-Mail", "Geb.-Datum", "PLZ/Ort", "Ort (privat)", "Straße-Nr"])(
  "%s without backticks is a mistake that names the right quoting",
  (name) => {
    const mapping = (field: string) => `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: a
      lastName: b
      city: ${field}
`;
    expect(problemsOf(mapping(name))).toEqual([
      expect.stringContaining(`write it in backticks and quotes, '\`${name}\`'`) as string,
    ]);
    expect(problemsOf(mapping(`'\`${name}\`'`))).toEqual([]);
  },
);

test("a difference with blanks, and a call of a function, are expressions", () => {
  const mapping = `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: $string(a - b)
      lastName: $trim(b)
`;
  expect(problemsOf(mapping)).toEqual([]);
});

test("a file in JSON is told by JSON's rules, with line and column", () => {
  const faulty = '{"version":1,\n "objects":[{"object":"contact" "crmCode":"x"}]}';
  const problems = (text: string) => examineMappingFile(text, "m.json").problems;
  expect(problems(faulty)).toEqual([
    "m.json:2:33: it is not JSON: a comma, a quote or a bracket is wrong here",
  ]);
  expect(problems('{"version":1,')).toEqual([
    "m.json:1:14: it is not JSON: the file is cut off here",
  ]);
  expect(problems('{"version":1}').join()).not.toContain("JSON");
});
