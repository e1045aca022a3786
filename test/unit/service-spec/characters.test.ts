import { expect, test } from "vitest";
import { cut } from "../../../src/core/service-spec/characters.ts";

test.for([
  ["abc", 3, "abc"],
  ["abcd", 3, "abc"],
  ["ab🚀", 4, "ab🚀"],
  ["ab🚀", 3, "ab"],
  ["🚀🚀", 3, "🚀"],
  ["🚀", 1, ""],
  ["", 3, ""],
] as const)("%s cut to %i", ([text, units, wanted]) => {
  expect(cut(text, units)).toBe(wanted);
});
