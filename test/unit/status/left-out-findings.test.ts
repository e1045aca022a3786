import { expect, it } from "vitest";
import { leftOutFindings, leftOutIn } from "../../../src/operate/status/change-findings.ts";

it("names fields whose values can hardly be used, and is calm about single mistakes", () => {
  const outcomes = { "checked intake passed": 40, "left_out email": 4, "left_out birthDate": 12 };
  expect(leftOutIn(outcomes)).toEqual([
    { field: "birthDate", count: 12 },
    { field: "email", count: 4 },
  ]);
  const [found, ...others] = leftOutFindings(outcomes);
  expect(found?.says).toMatch(/of the 40 changes of the last hour: birthDate 12\. /);
  expect(found?.runbook).toBe("docs/runbook.md#values-were-left-out");
  expect(others).toEqual([]);
  expect(leftOutFindings({ ...outcomes, "checked intake passed": 400 })).toEqual([]);
});
