import { expect, test } from "vitest";
import { allPrintable, printable, printableLines } from "../../../src/base/printable.ts";

test.for([
  ["colour and cursor", "\u001b[31mred\u001b[2J", "\\u001b[31mred\\u001b[2J"],
  ["control sequences of one byte", "\u009b2J\u007f", "\\u009b2J\\u007f"],
  ["another direction", "\u202eevil\u2066", "\\u202eevil\\u2066"],
  ["invisible ones", "a\u200bb\u00ad\ufeff", "a\\u200bb\\u00ad\\ufeff"],
  ["tags", "\u{e0041}", "\\udb40\\udc41"],
  ["half of a pair", "x\ud800", "x\\ud800"],
  ["ends of lines", "a\nb\r\u2028\u0085", "a\\u000ab\\u000d\\u2028\\u0085"],
] as const)("%s are shown as escapes", ([, text, shown]) => {
  expect(printable(text)).toBe(shown);
});

test.for(["Zoë Müller", "🧑‍🚀", "می‌خواهم", "مثال", "𝔸", "a b"])("%s stays as it is", (text) => {
  expect(printable(text)).toBe(text);
});

test("JSON stays the same JSON", () => {
  const value = { "\u202e": ["\u001b[2J", "\ud800", "\u{e0041}", "\u007f\u0085"] };
  for (const indent of [undefined, 2]) {
    const shown = printableLines(JSON.stringify(value, undefined, indent));
    expect(JSON.parse(shown)).toEqual(value);
    expect(shown).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Cs}]/u);
  }
});

test("no text of a value begins a line of its own", () => {
  expect(allPrintable({ says: "a\n✓ all is well", n: 1, list: [null, "\u001b"] })).toEqual({
    says: "a\\u000a✓ all is well",
    n: 1,
    list: [null, "\\u001b"],
  });
});
