import { expect, test } from "vitest";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { codeProblem, recordIds } from "../../../src/intake/mapping/record-ids.ts";

const IDS = recordIds();

const NONE = /word for none/;
const CHANGED = /a spreadsheet has changed it/;
const SIGNS = /must consist of ordinary letters and digits/;

test.each([
  ["undefined", NONE],
  ["NULL", NONE],
  ["NaN", NONE],
  ["None", NONE],
  ["Array", NONE],
  ["id", NONE],
  ["Record ID", NONE],
  ["n/a", NONE],
  ["-1", NONE],
  ["False", NONE],
  ["Err:502", NONE],
  ["00000000-0000-0000-0000-000000000000", NONE],
  ["000000000000000AAA", NONE],
  ["1.23457E+17", CHANGED],
  ["3,1E+05", CHANGED],
  ["1E+05", CHANGED],
  ["4711.0", CHANGED],
  ["1 234", CHANGED],
  ["1-Mar", CHANGED],
  ["01-mars-26", CHANGED],
  ["3. Okt", CHANGED],
  ["Mar-85", CHANGED],
  ["Mrz 85", CHANGED],
  ["1/3/2026", CHANGED],
  ["2026-03-01 00:00:00", CHANGED],
  ["[object Object]", SIGNS],
  ["[id]", SIGNS],
  ["{{contact.id}}", SIGNS],
  ["<null>", SIGNS],
  ["%23", SIGNS],
  ["#N/A", SIGNS],
  ["#¡VALOR!", SIGNS],
  ["########", SIGNS],
  ["--", SIGNS],
  ["?", SIGNS],
  ["47  11", SIGNS],
  ["４７１１", SIGNS],
  ["1'234", SIGNS],
  ["1,234", SIGNS],
  ['="00124"', SIGNS],
  ["4711\u200b", SIGNS],
  ["\ufeff4711", SIGNS],
  ["47\u00a011", SIGNS],
  [" 4711", SIGNS],
  ["4711 ", SIGNS],
  // The letters of a Salesforce id in another case.
  ["003QK00000ABC12IAF", /do not fit the others/],
])("%j is the id of no record", (id, why) => {
  expect(IDS.problemOf(`contact/${id}`)).toMatch(why);
  const event = { specversion: "1.0", id: "1", source: "/crm", type: "crm.record.deleted" };
  expect(parseEvent({ ...event, subject: `contact/${id}` }, 0, IDS)).toMatchObject({
    ok: false,
    problems: [{ field: "subject", rule: expect.stringMatching(why) as string }],
  });
});

test.each([
  "4711",
  "5E10",
  "12E4",
  "1.234.567",
  "A 12",
  "Null-Meier",
  "a/b",
  "nullo",
  "00124",
  "0",
  "#12",
  "000000000000000A12",
  "Zoë",
  "-12",
  "falsework",
  "ada@muster.example",
  "eu:4711/b_2~x",
  "-NxYz_12",
  "MAR-85",
  "12-Mara-1",
  "1.3.26",
  "AbC+/12==",
  "003Qk00000AbC12IAF",
])("%j is an id", (id) => {
  expect(IDS.problemOf(`contact/${id}`)).toBeUndefined();
});

test("an id is no name of its record's fields, as of a header row that stands twice", () => {
  expect(IDS.problemOf("contact/Kundennummer", { Kundennummer: "Kundennummer" })).toMatch(/column/);
});

test("a mapping says itself which ids an object has", () => {
  const own = recordIds({ ids: [{ objects: ["contact"], pattern: "[A-Z]'\\d+%" }] });
  expect(own.problemOf("Contact/A'12%")).toBeUndefined();
  expect(own.problemOf("Contact/A'12%, too")).toMatch(/must match the pattern/);
  expect(own.problemOf("contact/4711")).toMatch(/must match the pattern/);
  expect(own.problemOf("company/4711")).toBeUndefined();
});

test.each(["c-undefined", "null", "person-NaN", "x:[object Object]", "c_null_1"])(
  "%j is made of nothing",
  (code) => {
    expect(codeProblem(code)).toBeDefined();
  },
);

test("a crmCode may have such letters in it", () => {
  expect(codeProblem("c-nullify-undefinedness")).toBeUndefined();
});

test.each([
  [
    "contact/{5F0C8A1B-0000-4A4A-9B9B-ABCDEFABCDEF}",
    "contact/5f0c8a1b-0000-4a4a-9b9b-abcdefabcdef",
  ],
  [
    "contact/urn:uuid:5F0C8A1B00004A4A9B9BABCDEFABCDEF",
    "contact/5f0c8a1b-0000-4a4a-9b9b-abcdefabcdef",
  ],
  ["Account/0011t00000AbCdE", "Account/0011t00000AbCdEAAV"],
  ["Client__c/a0B1t00000AbCdE", "Client__c/a0B1t00000AbCdEEAV"],
  ["contact/123456789012345", "contact/123456789012345"],
  ["client/0011t00000AbCdE", "client/0011t00000AbCdE"],
])("%j has one form", (subject, form) => {
  expect(IDS.formOf(subject)).toBe(form);
  expect(IDS.formOf(form)).toBe(form);
});

test.each(["constructor", "__proto__", "toString"])("an object may be called %s", (object) => {
  expect(IDS.formOf(`${object}/003Qk00000AbC12`)).toBe(`${object}/003Qk00000AbC12`);
});
