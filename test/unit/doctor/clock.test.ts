import { expect, it } from "vitest";
import { clockCheck } from "../../../src/operate/doctor/clock.ts";

it.each([
  ["ok", 900, 500],
  ["ok", 4000, 4000],
  ["ok", -10_000, 15_500],
  ["warn", 4000, 500],
  ["warn", -4000, 500],
  ["fail", 60_000, 15_500],
] as const)("%s: %d ms ahead, of which %d are uncertain", (result, aheadMs, uncertainMs) => {
  expect(clockCheck("clock, service", aheadMs, uncertainMs).result).toBe(result);
});
