/**
 * Sends what owners must correct in the CRM when QUALITY_CRON says so: `crmsync quality --send` in a process of its own,
 * because a CRM's list takes memory. Of all processes one does it.
 */
import { randomUUID } from "node:crypto";
import { lastTime } from "../src/base/cron.ts";
import { readOne } from "../src/base/redis-reading.ts";
import { backoffMs } from "../src/core/event/backoff.ts";
import type { Step } from "./chores.ts";
import { startCommand } from "./command-child.ts";
import type { Uses } from "./parts.ts";

/** Pauses after a failure, doubled each time, ms. */
const PAUSES = { firstMs: 60_000, longestMs: 6 * 3_600_000 };

type QualityParts = Uses<"clock" | "config" | "log" | "qualityRuns" | "statusRedis">;

/** @returns undefined without QUALITY_CRON */
export function sendQuality(parts: QualityParts): Step | undefined {
  const { config, log, qualityRuns } = parts;
  const cron = config.QUALITY_CRON;
  if (cron === undefined) return undefined;
  const owner = randomUUID();
  return async (signal) => {
    if ((await dueRun(parts, cron)) === undefined) return;
    await qualityRuns.lease.whileHeld(owner, async (lost) => {
      // Another process may have ended it before this one got the lease.
      const run = await dueRun(parts, cron);
      if (run === undefined) return;
      const { done, due, tries } = run;
      const from = config.RECONCILE_FROM === undefined ? [] : ["--from", config.RECONCILE_FROM];
      const args = ["quality", "--send", "--once", new Date(due).toISOString(), ...from];
      const { ended, stdout } = startCommand(args, AbortSignal.any([signal, lost]));
      stdout.resume();
      const { isDone, says } = await ended;
      if (signal.aborted || lost.aborted) return;
      if (isDone) {
        log.info({ messages: Number.parseInt(says, 10) }, "quality.sent");
        return qualityRuns.keep({ cron, done: due });
      }
      log.warn({ why: says, tries }, "quality.not_sent");
      const failure = { due, at: parts.clock.now(), tries: tries + 1, why: says };
      return qualityRuns.keep({ cron, done, failure });
    });
  };
}

/** One that was missed while no daemon ran is due once; one that has failed is due again after a pause. */
async function dueRun({ clock, qualityRuns, statusRedis }: QualityParts, cron: string) {
  const now = clock.now();
  const known = await readOne(statusRedis, qualityRuns.schedule());
  // A clock that was ahead has written it: it would keep every run away until then.
  if (known?.cron !== cron || known.done > now) {
    await qualityRuns.keep({ cron, done: now });
    return undefined;
  }
  const { done, failure } = known;
  const due = lastTime(cron, now);
  if (due <= done) return undefined;
  const tries = failure?.due === due ? failure.tries : 0;
  if (failure !== undefined && tries > 0 && now < failure.at + backoffMs(tries, PAUSES)) return;
  return { done, due, tries };
}
