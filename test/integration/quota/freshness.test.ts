import { inject, expect, test } from "vitest";
import { newAtOnce, zipfHour } from "../../../bench/changes.ts";
import { replay } from "../../../bench/replay.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const quotaOf = (hourMs: number) => ({
  prefix: uniquePrefix(),
  perHour: 1000,
  hourMs,
  burst: 20,
  burstMs: hourMs / 720,
  pacing: "auto" as const,
  liveReserve: 100,
});

test("2,000 changes of 300 records in an hour: few requests, none of them old", async () => {
  const changes = zipfHour(11, "at random");
  const options = { redisUrl: inject("redisUrl"), processes: 3, quota: quotaOf(45_000) };
  const figures = await replay(changes, options);
  expect(figures.requests).toBeLessThanOrEqual(1030);
  expect(figures.settledAt).toBeLessThan(1.05 * 3_600_000);
  expect(figures.p50).toBeLessThan(90_000);
  expect(figures.p99).toBeLessThan(240_000);
  expect(figures.worstHour).toBeLessThanOrEqual(1000);
  expect(figures.worstBurst).toBeLessThanOrEqual(20);
});

test("New records at once are served as fast as the real burst window lets them", async () => {
  const options = { redisUrl: inject("redisUrl"), processes: 3, quota: quotaOf(3_600_000) };
  const figures = await replay(newAtOnce(180), options);
  expect(figures.requests).toBe(180);
  expect(figures.settledAt).toBeLessThan(1.03 * 8 * 5000);
  expect(figures.worstBurst).toBeLessThanOrEqual(20);
});
