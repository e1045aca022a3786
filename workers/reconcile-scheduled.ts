/** The reconciliation that RECONCILE_CRON asks for, with what RECONCILE_FROM lists. */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { lastTime, nextTime } from "../src/base/cron.ts";
import { runInChild } from "./reconcile-child.ts";
import { countIn, fieldsOf, RunLater, type Ended, type Run } from "./reconcile-taken.ts";
import type { Uses } from "./parts.ts";

/** Whether a run is due. One that was missed while no daemon ran is due once. */
export async function isRunDue({
  clock,
  config,
  reconcileRuns,
}: Uses<"clock" | "config" | "reconcileRuns">): Promise<boolean> {
  const cron = config.RECONCILE_CRON;
  if (cron === undefined) return false;
  const now = clock.now();
  const done = await reconcileRuns.scheduledUntil(now);
  await reconcileRuns.noteNext(nextTime(cron, done));
  return lastTime(cron, now) > done;
}

/** Ends the schedule that a former process had, unless a process that runs has one. */
export async function endSchedule({
  heartbeats,
  reconcileRuns,
}: Uses<"heartbeats" | "reconcileRuns">): Promise<void> {
  const running = await heartbeats.running();
  if (running.some(({ settings }) => settings?.["RECONCILE_CRON"] !== undefined)) return;
  await reconcileRuns.unschedule();
}

/** @throws RunLater; the run is then still due. */
export async function runScheduled({ parts, redisUrl, service, signal }: Run): Promise<void> {
  const { clock, config, log, reconcileRuns } = parts;
  // Another process may have ended it before this one got the lease.
  if (config.RECONCILE_FROM === undefined || !(await isRunDue(parts))) return;
  const dir = resolve(config.DATA_DIR, "reconcile");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const begunAt = performance.now();
  log.info({ crm: config.RECONCILE_FROM }, "reconcile.began");
  const request = {
    input: { crm: config.RECONCILE_FROM },
    options: {
      isApplied: config.RECONCILE_APPLY !== undefined,
      report: join(dir, "schedule.report.ndjson"),
    },
    redisUrl,
    service: { baseUrl: service.baseUrl, token: service.token() },
  };
  const result = await runInChild(request, signal, countIn(parts));
  if (result.result === "died" || result.result === "later") {
    if (signal.aborted) return;
    throw new RunLater(result.error);
  }
  const at = clock.now();
  keepResult(dir, at, result);
  // Runs that became due while this one ran are not made up for.
  await reconcileRuns.scheduleDone(at);
  await reconcileRuns.noteNext(nextTime(config.RECONCILE_CRON ?? "", at));
  const tookMs = Math.round(performance.now() - begunAt);
  await reconcileRuns.ended("schedule", { at, tookMs, result: result.result });
  log[result.result === "success" ? "info" : "warn"](fieldsOf(result), "reconcile.ended");
}

/** For people; each run replaces the result and the report of the one before. */
function keepResult(dir: string, at: number, result: Ended): void {
  const file = join(dir, "schedule.result.json");
  const text = JSON.stringify({ at: new Date(at).toISOString(), ...result }, undefined, 2);
  writeFileSync(`${file}.part`, `${text}\n`, { mode: 0o600 });
  renameSync(`${file}.part`, file);
}
