import { expect, test } from "vitest";
import { sentenceOf } from "../../../src/cli/ledger.ts";

const NONE = { rows: 0, exist: 0, terminated: 0, absent: 0, unknown: 0, uncertain: 0 };

test("one row is counted in the singular", () => {
  const one = sentenceOf({ ...NONE, rows: 1, exist: 1 });
  expect(one).toMatch(/^1 row: 1 relation exists \(0 of them terminated\), 0 do not, /);
  const two = sentenceOf({ ...NONE, rows: 2, exist: 1, absent: 1, uncertain: 1 });
  expect(two).toMatch(/^2 rows: 1 relation exists .*, 1 does not, 0 are unknown; 1 is uncertain /);
});
