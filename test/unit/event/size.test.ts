import { expect, it } from "vitest";
import { isLargerThan } from "../../../src/event/size.ts";

it("texts, names of fields and everything else count", () => {
  const large = (value: unknown) => isLargerThan(1000, 64, value);
  expect(large({ a: "x".repeat(900) })).toBe(false);
  expect(large({ a: "x".repeat(1001) })).toBe(true);
  expect(large({ ["x".repeat(1001)]: 1 })).toBe(true);
  expect(large({ a: [{ b: "x".repeat(600) }, { c: "x".repeat(600) }] })).toBe(true);
  expect(large(Array.from({ length: 1000 }, () => null))).toBe(true);
  expect(large(null)).toBe(false);
});

it("what is nested too deep to be walked counts as large", () => {
  const nested = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as unknown;
  expect(isLargerThan(10_000_000, 64, nested)).toBe(true);
});
