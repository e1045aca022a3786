import { expect, it } from "vitest";
import { chartOf } from "../soak/chart.ts";
import { growthOf } from "../soak/growth.ts";
import type { Measured } from "../soak/measure.ts";

/** @param rss memory in an hour, MB */
const run = (hours: number, rss: (hour: number) => number): Measured[] =>
  Array.from({ length: hours }, (_, hour) => ({
    hour,
    events: 100,
    rss: rss(hour),
    files: 40,
    keys: hour % 24 === 10 ? 900 : 100,
    redis: 2,
    waiting: 0.1,
  }));

const growing = (measured: readonly Measured[]) =>
  growthOf(measured).flatMap(({ isFlat, metric }) => (isFlat ? [] : [metric]));

it("finds what grows from the first day to the last", () => {
  expect(growing(run(72, () => 150))).toEqual([]);
  expect(growing(run(72, (hour) => 150 + hour))).toEqual(["rss"]);
  expect(growing(run(30, (hour) => 150 + 2 * hour))).toEqual(["rss"]);
});

it("does not compare the hours in which the processes warm up, nor one peak of a day", () => {
  expect(growing(run(72, (hour) => (hour < 24 ? 90 : 150)))).toEqual([]);
  expect(growing(run(72, (hour) => (hour === 60 ? 300 : 150)))).toEqual([]);
});

it("draws one bar for each hour and metric", () => {
  const svg = chartOf(run(48, () => 150));
  expect(svg.match(/<rect x=/g)?.length).toBe(48 * 6);
  expect(svg).not.toContain("NaN");
});
