/** What processes tell each other of the clocks of sources. */
import { expect, test } from "vitest";
import { Sources } from "../../../src/state/sources.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const HOUR = 3_600_000;

test("a clock that was set back while no process ran, or for another process, is noticed", async () => {
  const { keys, redis } = newRuntime();
  const start = () => new Sources(redis, keys);
  const before = start();
  await before.dated("/crm", 1000, 1000);
  await before.heard("/crm", 1000);

  const one = start();
  const other = start();
  await other.dated("/crm", 2000, 2000);
  const seen = [];
  for (const at of [60_000, 63_000, 66_000]) {
    seen.push((await one.dated("/crm", at - HOUR, at)).isNew);
  }
  expect(seen).toEqual([false, false, true]);
  expect(await other.isBack("/crm", 67_000)).toBe(true);
  expect(await start().isBack("/crm", 67_000)).toBe(true);
  expect(await other.dated("/crm", 70_000, 70_100)).toMatchObject({ isBack: false });
  expect(await one.isBack("/crm", 72_000)).toBe(false);
  expect(await one.isBack("/other", 72_000)).toBe(false);
});
