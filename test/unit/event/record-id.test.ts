import { expect, test } from "vitest";
import {
  parseEvent,
  canonicalSubject,
  codeProblem,
  idProblem,
} from "../../../src/event/crm-event.ts";

test.each([
  ["undefined", /word for none/],
  ["NULL", /word for none/],
  ["NaN", /word for none/],
  ["None", /word for none/],
  ["[object Object]", /word for none/],
  ["#N/A", /word for none/],
  ["#N/D", /word for none/],
  ["#NV", /word for none/],
  ["#¡VALOR!", /word for none/],
  ["#BEZUG!", /word for none/],
  ["Err:502", /word for none/],
  ["########", /word for none/],
  ["{{contact.id}}", /word for none/],
  ["[]", /word for none/],
  ["--", /word for none/],
  ["?", /word for none/],
  ["-1", /word for none/],
  ["False", /word for none/],
  ["00000000-0000-0000-0000-000000000000", /word for none/],
  ["000000000000000AAA", /word for none/],
  ["４７１１", /ordinary letters and digits/],
  ["1'234", /changed/],
  ["1.23457E+17", /shortened/],
  ["3,1E+05", /shortened/],
  ["1E+05", /shortened/],
  ["4711.0", /changed/],
  ["1,234", /changed/],
  ['="00124"', /formula/],
  ["4711\u200b", /invisible/],
  ["\ufeff4711", /invisible/],
  ["47\u00a011", /invisible/],
  [" 4711", /blank/],
  ["4711 ", /blank/],
])("%j is the id of no record", (id, why) => {
  expect(idProblem(id)).toMatch(why);
  const event = { specversion: "1.0", id: "1", source: "/crm", type: "crm.record.deleted" };
  expect(parseEvent({ ...event, subject: `contact/${id}` }, 0)).toMatchObject({
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
])("%j is an id", (id) => {
  expect(idProblem(id)).toBeUndefined();
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
  ["Account/0011t00000AbCdE", "Account/0011t00000AbCdEAAV"],
  ["Client__c/a0B1t00000AbCdE", "Client__c/a0B1t00000AbCdEEAV"],
  ["contact/123456789012345", "contact/123456789012345"],
  ["client/0011t00000AbCdE", "client/0011t00000AbCdE"],
])("%j has one form", (subject, form) => {
  expect(canonicalSubject(subject)).toBe(form);
  expect(canonicalSubject(form)).toBe(form);
});

test.each(["constructor", "__proto__", "toString"])("an object may be called %s", (object) => {
  expect(canonicalSubject(`${object}/003Qk00000AbC12`)).toBe(`${object}/003Qk00000AbC12`);
});
