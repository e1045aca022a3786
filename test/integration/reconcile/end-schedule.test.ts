/** The schedule of RECONCILE_CRON stays while a process that runs has it, and ends after the last one. */
import { expect, test } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { endSchedule } from "../../../workers/reconcile-scheduled.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const NOW = Date.parse("2026-11-22T10:00:00Z");
const DUE = NOW - 3_600_000;

test("the schedule of a process that runs stays, with the run that is due and the one that failed", async () => {
  const runtime = newRuntime();
  const { heartbeats, reconcileRuns, redis } = runtime;
  const scheduled = async () => [
    await readOne(redis, reconcileRuns.nextAt()),
    (await readOne(redis, reconcileRuns.last())).schedule?.result,
  ];
  const other = { version: "1", roles: ["sync"], startedAt: NOW };
  await heartbeats.beat({ ...other, id: "a:1", settings: { RECONCILE_CRON: "30 2 * * *" } });
  await heartbeats.beat({ ...other, id: "b:1", settings: {} });
  await reconcileRuns.scheduledUntil(DUE - 1);
  await reconcileRuns.noteNext(DUE);
  await reconcileRuns.ended("schedule", { at: NOW, tookMs: 1, result: "failed" });

  await endSchedule(runtime);
  expect(await scheduled()).toEqual([DUE, "failed"]);
  expect(await reconcileRuns.scheduledUntil(NOW)).toBe(DUE - 1);

  await heartbeats.leave("a:1");
  await endSchedule(runtime);
  expect(await scheduled()).toEqual([undefined, undefined]);
  expect(await reconcileRuns.scheduledUntil(NOW)).toBe(NOW);
});
