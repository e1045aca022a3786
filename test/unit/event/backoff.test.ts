import { expect, it } from "vitest";
import { backoffMs, spread } from "../../../src/core/event/backoff.ts";

it.for([
  [0, 1000],
  [1, 1000],
  [2, 2000],
  [3, 4000],
  [9, 256_000],
  [10, 300_000],
  [40, 300_000],
  [5000, 300_000],
])("after %i failed tries the pause is %i ms", ([tries = 0, pauseMs]) => {
  expect(backoffMs(tries, { firstMs: 1000, longestMs: 300_000 })).toBe(pauseMs);
});

it.for([
  [0, 500],
  [0.5, 750],
  [1, 1000],
])("its upper half is random: %f of it makes %i of 1000 ms", ([random = 0, pauseMs]) => {
  expect(spread(1000, random)).toBe(pauseMs);
});

it("a first pause of none stays none, and a longest one is never exceeded", () => {
  expect(backoffMs(7, { firstMs: 0, longestMs: 10 })).toBe(0);
  expect(backoffMs(1, { firstMs: 100, longestMs: 10 })).toBe(10);
});
