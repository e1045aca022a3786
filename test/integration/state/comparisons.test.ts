/** The list of the last comparisons: bounded, and gone after 180 days. */
import { expect, test } from "vitest";
import type { NotedComparison } from "../../../src/state/comparisons.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const DAY_MS = 86_400_000;
const NOW = Date.parse("2026-11-22T10:00:00Z");

const noted = (at: number): NotedComparison => ({
  at,
  tookMs: 1,
  source: "schedule",
  crm: "hubspot",
  records: 3,
  equal: 2,
  drift: { missing: 1 },
});

test("the last ten are kept, newest first, for 180 days", async () => {
  const { comparisons, keys, redis } = newRuntime();
  expect(await comparisons.last(NOW)).toEqual([]);
  const oldest = NOW - 181 * DAY_MS;
  await comparisons.note(noted(oldest));
  await comparisons.note(noted(oldest + 2 * DAY_MS));
  // Too old ones leave Redis with the next one, and are not shown before that.
  expect(await comparisons.last(NOW)).toEqual([noted(oldest + 2 * DAY_MS)]);
  await comparisons.note(noted(NOW));
  expect(await redis.zcard(keys.comparisons)).toBe(2);
  for (let n = 1; n <= 12; n += 1) await comparisons.note(noted(NOW + n));
  const times = (await comparisons.last(NOW)).map(({ at }) => at - NOW);
  expect(times).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  expect(await redis.zcard(keys.comparisons)).toBe(10);
  const left = await redis.pttl(keys.comparisons);
  expect(left).toBeGreaterThan(179 * DAY_MS);
  expect(left).toBeLessThanOrEqual(180 * DAY_MS);
});
