import { expect, it } from "vitest";
import { retryDelay, retryShareMs } from "../../../src/core/sync/retry.ts";

const HOUR_MS = 3_600_000;
const QUOTA = { perHour: 1000, hourMs: HOUR_MS };

it("the delay doubles up to a quarter of an hour, and its upper half is random", () => {
  const delays = (random: number) =>
    [1, 2, 3, 11, 40].map((tries) => retryDelay(tries, 1000, () => random));
  expect(delays(1)).toEqual([1000, 2000, 4000, 900_000, 900_000]);
  expect(delays(0)).toEqual([500, 1000, 2000, 450_000, 450_000]);
});

it("few records that fail are tried as often as before", () => {
  expect(retryShareMs(10, QUOTA)).toBe(0);
  expect(retryDelay(1, 1000, () => 1, { shareMs: 0 })).toBe(1000);
});

it.each([
  [11, QUOTA],
  [80, { perHour: 100, hourMs: HOUR_MS }],
  [1000, QUOTA],
  [1700, QUOTA],
])("%d records that fail take at most a tenth of the quota, on average", (records, quota) => {
  // As many random numbers as there are records, evenly spread.
  const delays = Array.from({ length: records }, (_, n) => {
    const random = () => (n + 0.5) / records;
    return retryDelay(1, 1000, random, { shareMs: retryShareMs(records, quota) });
  });
  const meanMs = delays.reduce((sum, delay) => sum + delay, 0) / records;
  const perHour = (records * HOUR_MS) / meanMs;
  expect(perHour / quota.perHour).toBeCloseTo(0.1, 3);
});

it("however many fail, each is tried once a day", () => {
  expect(retryShareMs(1_000_000, QUOTA)).toBe(24 * HOUR_MS);
});
