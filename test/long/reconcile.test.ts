/** A run of `npm run chaos -- --reconcile`, small enough for each commit. */
import { expect, inject, test } from "vitest";
import { runReconcile } from "../chaos/reconcile.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";

/** Requests of a daemon that run at once: the default of SYNC_CONCURRENCY. */
const MOST_IN_FLIGHT = 10;

test("every planted difference is found and repaired, and no live change is undone, through two kills", async () => {
  const planted = 300;
  const result = await runReconcile({
    relations: 6000,
    differences: planted,
    livePerSecond: 5,
    seed: 7,
    redisUrl: inject("redisUrl"),
    prefix: uniquePrefix(),
  });
  expect(result).toMatchObject({ notFound: [], invented: [], wrong: [] });
  expect(result.mostWaiting).toBeLessThanOrEqual(300);
  // Two listings of 2 requests each; each change of the plan cost one request, each live change at most one.
  // A create that the kill of the daemon cut off may have arrived: it is sent again, gets 409, and an update follows.
  const {
    "list 200": listed,
    "create 201": created,
    "create 409": cutOff = 0,
    "update 200": updated = 0,
    ...others
  } = result.requests;
  expect(listed).toBe(4);
  expect(created).toBe(planted * 0.24);
  expect(cutOff).toBeLessThanOrEqual(MOST_IN_FLIGHT);
  expect(updated).toBeLessThanOrEqual(planted * 0.6 + result.liveChanges + cutOff);
  expect(Object.keys(others).filter((name) => !name.endsWith(" 200"))).toEqual([]);
});
