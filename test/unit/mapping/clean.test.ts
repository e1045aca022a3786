import { expect, test } from "vitest";
import { cleanText } from "../../../src/intake/mapping/clean.ts";

test.each([
  ["Zo\u200dë", "Zoë"],
  ["Ada\u200b\u200c", "Ada"],
  // Persian and Malayalam spell words with joiners.
  ["می\u200cخواهم", "می\u200cخواهم"],
  ["ക്\u200dഷ", "ക്\u200dഷ"],
  ["می\u200c", "می"],
])("%j is cleaned to %j", (text, clean) => {
  expect(cleanText(text)).toBe(clean);
});
