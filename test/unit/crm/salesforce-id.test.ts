import { expect, test } from "vitest";
import { isRecordId, wholeId } from "../../../src/intake/crm/salesforce-id.ts";

test.each([
  ["003Qk00000AbC12", "003Qk00000AbC12IAF"],
  ["001Qk00000XyZ34", "001Qk00000XyZ34IAF"],
  ["003Qk00000AbC12IAF", "003Qk00000AbC12IAF"],
  // Ids that differ in the case of a letter only are of two records.
  ["003Qk00000AbC1a", "003Qk00000AbC1aIAF"],
  ["003Qk00000AbC1A", "003Qk00000AbC1AIAV"],
  ["4711", "4711"],
])("%s is %s", (id, whole) => {
  expect(wholeId(id)).toBe(whole);
});

test.each(["000000000000000", "000000000000000AAA", "001*", ""])("%j names no record", (id) => {
  expect(isRecordId(id)).toBe(false);
});
