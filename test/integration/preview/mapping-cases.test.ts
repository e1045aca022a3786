/** `mapping test`: what its cases must say, and what they say of the presets, the pages and the examples. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  loadMapping,
  mappingFileOf,
  presetNames,
} from "../../../src/intake/mapping/load-mapping.ts";
import {
  casesFileOf,
  casesJsonSchema,
  readCases,
} from "../../../src/whole/preview/mapping-cases.ts";
import { runCase } from "../../../src/whole/preview/run-case.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ROOT = join(import.meta.dirname, "../../..");
const EXAMPLE = join(ROOT, "examples/natural-and-legal.yaml");

async function run(name: string) {
  const given = readCases(name);
  const mapping = await loadMapping(given.mapping);
  try {
    const all = given.cases.map(
      async (one) => [one.name, await runCase(one, mapping, given)] as const,
    );
    return Object.fromEntries(await Promise.all(all));
  } finally {
    await mapping.close();
  }
}

const MAPPING = `version: 1
objects:
  - object: contact
    when: $not(draft = true)
    crmCode: '"c-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      email: email
      branch: branch
webhooks:
  tool:
    verify: bearer
    operation: { from: $query.operation, default: updated, table: { ping: null } }
`;

async function differencesOf(cases: string) {
  await using dir = await tempDir();
  const file = join(dir.path, "m.yaml");
  await writeFile(file, MAPPING);
  await writeFile(casesFileOf(file), cases);
  return await run(file);
}

const ada = "record: { id: 1, first: Ada, last: Muster, email: a+b@x.com, branch: geneva }";
const more = "last: Muster, email: a@x.com, branch: zurich";
const body = `body: [{ id: 1, first: Ada, ${more} }, { id: 2, first: Max, ${more} }]`;

test.for(presetNames())("%s passes its two cases", async (name) => {
  const results = Object.values(await run(mappingFileOf(name)));
  expect(results).toEqual([[], []]);
});

test("the example of natural and legal persons passes", async () => {
  expect(Object.values(await run(EXAMPLE))).toEqual([[], [], []]);
});

test("the guide's cases pass with the guide's mapping", async () => {
  const guide = readFileSync(join(ROOT, "docs/mapping.md"), "utf8");
  const blocks = [...guide.matchAll(/```yaml\n([^]*?)```/g)].map(([, text = ""]) => text);
  const cases = blocks.find((text) => text.includes("\ncases:")) ?? "";
  await using dir = await tempDir();
  const file = join(dir.path, "m.yaml");
  await writeFile(file, blocks[0] ?? "");
  await writeFile(casesFileOf(file), cases);
  expect(Object.values(await run(file))).toEqual([[], [], []]);
});

test("a case fails for each field, warning and problem that differs", async () => {
  const { plain, dead, other } = await differencesOf(`cases:
  - name: plain
    input: { ${ada} }
    expect:
      crmCode: c-2
      payload: { type: Person, name: Ada Muster, firstName: Ada, lastName: Master, city: Bonn,
        relationshipStatus: Client, relationStatus: active, amlFrequency: ongoing, branch: [geneva] }
  - name: dead
    input: { object: contact, id: 7, record: { first: Ada } }
    expect: { problems: [{ field: lastName, rule: is required }, { field: firstName }] }
  - name: other
    input: { object: contact, id: 7, record: { first: Ada } }
    expect: { payload: { type: Person } }
`);
  expect(plain).toEqual([
    { path: "crmCode", expected: "c-2", actual: "c-1" },
    { path: "payload.lastName", expected: "Master", actual: "Muster" },
    { path: "payload.city", expected: "Bonn", actual: undefined },
    {
      path: "warnings",
      expected: undefined,
      actual: expect.objectContaining({ field: "email", reason: "not_accepted" }) as object,
    },
  ]);
  expect(dead).toEqual([{ path: "problems", expected: { field: "firstName" }, actual: undefined }]);
  expect(other).toEqual([
    { path: "result", expected: "passes", actual: "dead letter; lastName is required" },
  ]);
});

test("events, bodies of webhooks, ignored records and the tenant's lists", async () => {
  const results = await differencesOf(`lists: { branch: [zurich] }
cases:
  - name: the tenant has no such branch
    input: { ${ada} }
    expect: { warnings: [{ field: email, reason: not_accepted }, { field: branch, reason: not_in_tenant_list, value: geneva }] }
  - name: a deletion
    input: { event: { type: crm.record.deleted, subject: contact/1 } }
    expect: { crmCode: c-1, status: terminated }
  - name: a body with two events
    input: { webhook: 'tool?operation=deleted', ${body} }
    expect: [{ crmCode: c-1, status: terminated }, { crmCode: c-2 }]
  - name: left out
    input: { webhook: 'tool?operation=ping', body: { id: 1 } }
    expect: []
  - name: not an operation
    input: { webhook: tool, body: { first: Ada } }
    expect: { result: refused }
  - name: ignored
    input: { record: { id: 1, draft: true } }
    expect: { result: ignored }
  - name: a CRM's body
    input: { body: ${readFileSync(join(ROOT, "test/fixtures/twenty/03-person.deleted.json"), "utf8").replaceAll(/\s+/g, " ")} }
    expect: { problems: [{ field: object }] }
  - name: one of two
    input: { webhook: tool, ${body} }
    expect: { crmCode: c-1 }
  - name: no id
    input: { record: { first: Ada, last: Muster } }
    expect: { crmCode: c-1 }
`);
  const { "one of two": two, "no id": nameless, ...passing } = results;
  for (const [name, differences] of Object.entries(passing)) expect(differences, name).toEqual([]);
  expect(two).toEqual([
    { path: "[1].result", expected: undefined, actual: { result: "passes", crmCode: "c-2" } },
  ]);
  expect(nameless).toEqual([
    {
      path: "result",
      expected: "passes",
      actual: expect.stringContaining("give it as `id`") as string,
    },
  ]);
});

test.for([
  ["cases: []", "1: cases must not be empty"],
  [
    "cases:\n  - name: a\n    input: { record: {} }\n    expect: { payloud: {} }",
    "4: cases[0].expect.payloud",
  ],
  [
    "cases:\n  - name: a\n    input: { record: {}, event: {} }\n    expect: {}",
    "3: cases[0].input needs one of",
  ],
  [
    "cases:\n  - name: a\n    input: {}\n    expect: [{ problems: no }]",
    "4: cases[0].expect[0].problems must",
  ],
  ["cases:\n  - name: [", "2: "],
] as const)("mistakes in cases are named with their line: %j", async ([text, problem]) => {
  await expect(differencesOf(text)).rejects.toThrow(`m.test.yaml:${problem}`);
});

test("a mapping without cases, and cases of a mapping elsewhere", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "m.yaml");
  await writeFile(file, MAPPING);
  expect(() => readCases(file)).toThrow("it has no cases");
  const others = join(dir.path, "others.test.yaml");
  const one = (mapping: string) =>
    `mapping: ${mapping}\ncases: [{ name: a, input: { record: { id: 1 } }, expect: { result: ignored } }]`;
  await writeFile(others, one("m.yaml"));
  expect(readCases(others)).toMatchObject({ mapping: file, file: others });
  await writeFile(others, one("hubspot"));
  expect(readCases(others)).toMatchObject({ mapping: "hubspot" });
});

test("the published schema is that of the cases (node deploy/generate.ts)", () => {
  const published = readFileSync(join(ROOT, "mappings/mapping-test.schema.json"), "utf8");
  expect(JSON.parse(published)).toEqual(JSON.parse(JSON.stringify(casesJsonSchema())));
});
