import { expect, test } from "vitest";
import { csvLine } from "../../src/base/csv-line.ts";

test.for([
  ["=1+1", "'=1+1"],
  ["a,b", '"a,b"'],
  ['say "x"', '"say ""x"""'],
  // Excel in many countries begins a cell at each semicolon, quoted or not.
  ["a;=1+1", '"a;\'=1+1"'],
  ['a; "@x', '"a; ""\'@x"'],
  ["a\n=1", '"a\n\'=1"'],
  ["a; b - c", '"a; b - c"'],
] as const)("%j is no formula, and one cell", ([text, line]) => {
  expect(csvLine([text])).toBe(`${line}\r\n`);
});
