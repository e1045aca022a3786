/**
 * Reconciles by itself what is dropped into RECONCILE_DIR, and what RECONCILE_FROM lists when
 * RECONCILE_CRON says so. The plan is carried out with RECONCILE_APPLY. Of all processes one does it at
 * a time. It also carries out the plans that people have asked for on the console.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { backoffMs } from "../src/core/event/backoff.ts";
import { DropFolder, type Look } from "../src/whole/reconcile/drop/drop-folder.ts";
import { removeOld } from "../src/whole/reconcile/drop/taken-file.ts";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import { createApprovedPlans, type ApprovedPlan } from "./approved-plans.ts";
import type { ChoreWork } from "./chores.ts";
import { endSchedule, isRunDue, runScheduled } from "./reconcile-scheduled.ts";
import { RunLater, runTaken, type RunParts } from "./reconcile-taken.ts";
import type { Uses } from "./parts.ts";

/** How long a file without a marker must stay as it is, ms. */
const QUIET_MS = 60_000;

/** Pauses after a failure that may pass, doubled each time, ms. */
const PAUSES = { firstMs: 10_000, longestMs: 3_600_000 };

/** After this long each process that runs has said whether it has a schedule, and a killed one counts as ended, ms. */
const END_SCHEDULE_MS = 60_000;

const REMOVE_EVERY_MS = 3_600_000;

export function reconcile(
  parts: RunParts &
    Uses<
      | "auditActs"
      | "deadLetters"
      | "heartbeats"
      | "heldTerminations"
      | "history"
      | "keys"
      | "rarely"
    >,
  redisUrl: string,
  service: ServiceAddress,
): ChoreWork {
  const { clock, config, log, rarely, reconcileRuns } = parts;
  const dir = config.RECONCILE_DIR;
  if (config.RECONCILE_CRON === undefined) {
    setTimeout(() => void endSchedule(parts).catch(() => {}), END_SCHEDULE_MS).unref();
  }
  const folder = dir === undefined ? undefined : new DropFolder(resolve(dir), QUIET_MS);
  const owner = randomUUID();
  const pause = createPause();
  const plans = createApprovedPlans(parts);
  let running: Promise<void> | undefined;
  let removeAt = 0;

  async function look(): Promise<Look | undefined> {
    if (folder === undefined) return undefined;
    let view: Look = { ready: undefined, waiting: 0, failed: 0 };
    let trouble = pause.why;
    try {
      view = await folder.look(performance.now());
    } catch (error) {
      trouble = `${folder.dir} cannot be used (${codeOf(error)})`;
      rarely.warn({ err: error }, "reconcile.folder_unusable");
    }
    const { waiting, failed } = view;
    await reconcileRuns.noteFolder(hostname(), { waiting, failed, trouble }, clock.now());
    return view;
  }

  /** @param what the name of a file in the folder, or a plan; undefined: the scheduled run. */
  async function run(what: string | ApprovedPlan | undefined, signal: AbortSignal): Promise<void> {
    try {
      const shared = { parts, redisUrl, service, signal };
      if (typeof what === "object") return await plans.run(what, shared);
      const taken = what === undefined ? undefined : await folder?.take(what);
      if (taken !== undefined) await runTaken(taken, shared);
      if (what === undefined) await runScheduled(shared);
      pause.end();
    } catch (error) {
      pause.begin(error instanceof RunLater ? error.message : codeOf(error));
      log.warn({ err: error }, "reconcile.later");
    }
  }

  return {
    async run(signal) {
      const view = await look();
      const approved = await plans.next();
      if (running !== undefined || pause.isOn()) return;
      if ((approved ?? view?.ready) !== undefined || (await isRunDue(parts))) {
        running = reconcileRuns.lease
          .whileHeld(owner, (lost) => run(approved ?? view?.ready, AbortSignal.any([signal, lost])))
          // An unreachable Redis is logged by its connections.
          .catch(() => {})
          .finally(() => (running = undefined));
      } else if (folder !== undefined && performance.now() >= removeAt) {
        removeAt = performance.now() + REMOVE_EVERY_MS;
        await removeOld(folder.dir, Date.now());
      }
    },
    async close() {
      await running;
      await reconcileRuns.leaveFolder(hostname()).catch(() => {});
    },
  };
}

const codeOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code ?? (error as Error).message;

/** After failures that may pass; the pauses grow. */
function createPause() {
  let endsAt = 0;
  let times = 0;
  let why: string | undefined;
  return {
    /** Why the last run has to be repeated; undefined: it has not. */
    get why() {
      return why;
    },
    isOn: () => performance.now() < endsAt,
    begin(reason: string) {
      times += 1;
      endsAt = performance.now() + backoffMs(times, PAUSES);
      why = reason;
    },
    end() {
      times = 0;
      why = undefined;
    },
  };
}
