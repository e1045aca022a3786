/** What a mapping reads, and no record of a file has. */
import { describe, expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { parseExpression } from "../../../src/intake/mapping/compile-expression.ts";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { pathsIn } from "../../../src/intake/mapping/expression-tree.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { PathSearch, unreadLines } from "../../../src/intake/mapping/unread-paths.ts";

test.for([
  ["a", ["a"]],
  ["a.b & c", ["a.b", "c"]],
  ['addresses[type="home"][0].town', ["addresses.type", "addresses.town"]],
  ["a.(b & $$.c)", ["a.b", "c"]],
  ["items^(>date)[0].v", ["items.date", "items.v"]],
  ["a{b: c}", ["a", "a.b", "a.c"]],
  ["$.`a b`.c", ["a b.c"]],
  ["$map(emails, function($e) { $e.value & name })", ["emails", "name"]],
  ["( $x := a.b; $x.c )", ["a.b"]],
  // What follows cannot be known.
  ["a.*.b", ["a"]],
  ['$lookup($, "x")', [""]],
  // No part of the record.
  ["$event.recordId", []],
  ['"x"', []],
] as const)("%s reads %j", ([expression, paths]) => {
  expect(pathsIn(parseExpression(expression)).map((path) => path.join("."))).toEqual(paths);
});

const MAPPING = compileMapping(
  readMappingFile(
    `version: 1
objects:
  - object: Contact
    when: active
    crmCode: '"c-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      countryOfResidence: address.country
      nationality: $lookup($, "nat")
      address: street & " " & number
      email: { from: mail, fallback: 'mails[0].value' }
      phoneNumber: phone
  - object: contact
    crmCode: '"c-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      phoneNumber: mobile
`,
    "m.yaml",
  ),
);

const searched = (
  records: readonly Record<string, unknown>[],
  header?: Record<string, unknown>,
) => {
  const search = new PathSearch(MAPPING);
  for (const record of records) search.see("contact", record, header);
  return search;
};

const FULL = { active: true, first: "A", last: "B", phone: "1", mobile: "2" };

describe("a file", () => {
  test("is asked for each path, and names the nearest that it has", () => {
    const search = searched([
      { ...FULL, country: "LU", street: "Rue", nr: 1, email: "a@b.lu" },
      { ...FULL, adress: { country: "LU" } },
    ]);
    expect(unreadLines(search.unread())).toEqual([
      "address: the mapping reads `number`; no record has it",
      "countryOfResidence: the mapping reads `address.country`; no record has it; nearest: `adress.country`",
      "email: the mapping reads `mail`; no record has it; nearest: `email`",
      "email: the mapping reads `mails.value`; no record has it; nearest: `email`",
    ]);
    expect(unreadLines(search.unread(), 1)).toHaveLength(2);
    // An address is made of the street alone, and another rule may know a field by another name.
    expect(search.notCarried()).toEqual({ contact: { countryOfResidence: true, email: true } });
  });

  test("says by null, or by a list without items, that there is nothing", () => {
    const nothing = { ...FULL, street: "", number: "", mails: [], address: null };
    expect(searched([nothing]).unread()).toEqual([]);
    const some = { ...FULL, street: "", number: "", mail: null, address: [{}, { country: null }] };
    expect(searched([some]).unread()).toEqual([]);
  });

  test("that one rule can use and another one cannot carries the field for some", () => {
    const { phone: _, ...others } = { ...FULL, street: 1, number: 1, mail: 1, address: null };
    expect(searched([others]).notCarried()).toEqual({ contact: { phoneNumber: false } });
  });

  test("with columns is judged by these, also where all cells are empty", () => {
    const header = { ...FULL, street: "x", number: "x", mail: "x", address: "x", Country: "x" };
    expect(unreadLines(searched([{}], header).unread())).toEqual([
      "countryOfResidence: the mapping reads `address.country`; no such column; nearest: `Country`",
    ]);
  });

  test("of payloads lacks nothing in JSON, and in a table the fields without a column", () => {
    const table = new PathSearch(businessRelationMapping);
    const json = new PathSearch(businessRelationMapping);
    const record = { type: "Person", crmCode: "1", firstName: "A", lastName: "B" };
    json.see("record", record);
    table.see("record", record, { ...record, city: "x" });
    expect(json.notCarried()).toEqual({ record: {} });
    expect(table.notCarried()["record"]).toMatchObject({ email: true });
    expect(table.notCarried()["record"]).not.toHaveProperty("city");
    expect(table.unread()).toEqual([]);
  });
});
