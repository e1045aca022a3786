import { expect, test } from "vitest";
import { jsonFaultAt } from "../../../src/core/event/exact-json.ts";

test.for([
  ['{"a": }', 1, 7],
  ['{"name": "at position 5", x}', 1, 27],
  ["[1,]", 1, 4],
  ["[NaN]", 1, 2],
  ["[1,\n\n 2 3]", 3, 4],
  ['{"a": [\n  tru\n]}', 2, 6],
  ["[1] x", 1, 5],
  ["", 1, 1],
  ['{"a": 1', 1, 8],
  ['["a\nb"]', 1, 4],
] as const)("%j stops being JSON at %i:%i", ([text, line, column]) => {
  expect(jsonFaultAt(text)).toMatchObject({ line, column });
  const from = { line: 5, column: 10 };
  expect(jsonFaultAt(text, from)).toMatchObject({
    line: line + 4,
    column: line === 1 ? column + 9 : column,
  });
});
