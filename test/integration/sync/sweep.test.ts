/** What the sweep deletes. */
import { expect, test } from "vitest";
import { startChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";

test("The sources that were heard last are kept; others, which have no series of their own, are forgotten", async () => {
  const { keys, redis, ...runtime } = newRuntime();
  const sourcesOf = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => `/crm/${from + n}`);
  const heardAt = (source: string) => Number(source.slice("/crm/".length));
  for (const source of sourcesOf(0, 70)) {
    await redis.hset(keys.sources, source, heardAt(source));
    await redis.hset(keys.clocksAhead, source, JSON.stringify({ aheadMs: 9000, at: 1 }));
  }
  startChore({ ...runtime, keys, redis }, "sweep");
  await expect.poll(() => redis.hlen(keys.clocksAhead)).toBe(50);
  expect(await redis.hkeys(keys.sources)).toEqual(sourcesOf(20, 70));
  expect(await redis.hkeys(keys.clocksAhead)).toEqual(sourcesOf(20, 70));
});
