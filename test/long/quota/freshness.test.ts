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

// How old changes get is measured in virtual time (test/unit/quota/pacing.test.ts) and by the
// bench: an hour of 45 s is too short for the pauses of a busy machine.
test("2,000 changes of 300 records in an hour: few requests, and exact", async () => {
  const changes = zipfHour(11, "at random");
  const options = { redisUrl: inject("redisUrl"), processes: 3, quota: quotaOf(45_000) };
  const figures = await replay(changes, options);
  expect(figures.requests).toBeLessThanOrEqual(1030);
  expect(figures.worstHour).toBeLessThanOrEqual(1000);
  expect(figures.worstBurst).toBeLessThanOrEqual(20);
});

test("New records at once are served in bursts, as the real burst window lets them", async () => {
  const options = { redisUrl: inject("redisUrl"), processes: 3, quota: quotaOf(3_600_000) };
  const figures = await replay(newAtOnce(180), options);
  expect(figures.requests).toBe(180);
  // Eight windows of waiting; at the hour's rate it would be 648 s.
  expect(figures.settledAt).toBeLessThan(2 * 8 * 5000);
  expect(figures.worstBurst).toBeLessThanOrEqual(20);
});
