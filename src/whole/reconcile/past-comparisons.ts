/** The last comparisons of the CRM with the service, and what became of the plan of each. */
import type { NotedComparison } from "../../core/state/comparisons.ts";
import { readTogether } from "../../base/redis-reading.ts";
import type { PlanProgress } from "../../core/state/reconciliations.ts";
import type { Stores } from "../../operate/status/stores.ts";

export interface PastComparison extends NotedComparison {
  /** Of its plan; undefined when it was not begun. */
  readonly progress: PlanProgress | undefined;
  /** A process carries its plan out now. */
  readonly isRunning: boolean;
  /** Its plan was not begun, and a newer comparison of the same kind of export stands for it. */
  readonly isSuperseded: boolean;
}

/** Newest first. */
export async function pastComparisons(stores: Stores): Promise<PastComparison[]> {
  const { clock, comparisons, reconciliations, redis } = stores;
  const [last, { feeding, isFeeding, open }] = await Promise.all([
    comparisons.last(clock.now()),
    readTogether(redis, {
      feeding: reconciliations.feeding(),
      isFeeding: reconciliations.isFeeding(),
      open: comparisons.withOpenPlan(),
    }),
  ]);
  return Promise.all(
    last.map(async (one) => {
      const progress = one.plan && (await reconciliations.progress(one.plan.id));
      const isOpen = open.some(({ plan }) => plan?.id === one.plan?.id);
      return {
        ...one,
        progress,
        isRunning: isFeeding && feeding !== undefined && feeding.id === one.plan?.id,
        isSuperseded: one.plan !== undefined && progress === undefined && !isOpen,
      };
    }),
  );
}

const SOURCES = {
  command: "a command",
  folder: "the folder (RECONCILE_DIR)",
  schedule: "the schedule (RECONCILE_CRON)",
} as const;

/** What began it, and what was compared. */
export const sourceText = ({ crm, source }: Pick<NotedComparison, "crm" | "source">): string =>
  crm === undefined ? SOURCES[source] : `${SOURCES[source]}, listed from ${crm}`;

export interface Ending {
  /** `waits`: a person may still do something with it; `past`: nothing is to be done. */
  readonly tone: "good" | "waits" | "past" | "bad";
  readonly says: string;
  /** When it ended, ms. */
  readonly at?: number | undefined;
}

/** What became of a comparison and its plan. */
export function endingOf(comparison: PastComparison): Ending {
  const { dismissed, drift, isRunning, isSuperseded, plan, progress, stop } = comparison;
  if (dismissed) return { tone: "good", says: "dismissed: its plan is not carried out" };
  if (stop !== undefined) {
    return { tone: "bad", says: `stopped, and nothing was planned: ${stop}` };
  }
  if (plan === undefined) {
    return Object.keys(drift).length === 0
      ? { tone: "good", says: "nothing differed" }
      : { tone: "waits", says: "nothing that a plan could repair" };
  }
  if (isSuperseded) {
    const says = `not carried out, and superseded by a newer comparison: ${plan.entries} entries`;
    return { tone: "past", says };
  }
  const so = `${progress?.done ?? 0} of ${plan.entries} entries`;
  switch (progress?.state) {
    case undefined:
      return {
        tone: "waits",
        says: `not carried out: ${plan.entries} entries, ${plan.requests} requests`,
      };
    case "done":
      return carriedOut(so, progress);
    case "cancelled":
      return { tone: "bad", says: `cancelled after ${so}`, at: progress.at };
    case "running":
      return isRunning
        ? { tone: "good", says: `is being carried out: ${so}` }
        : {
            tone: "bad",
            says: `interrupted after ${so}: run the same command again`,
            at: progress.at,
          };
  }
}

function carriedOut(so: string, { at, leftOut = {} }: PlanProgress): Ending {
  const left = Object.values(leftOut).reduce((sum, count) => sum + count, 0);
  if (left === 0) return { tone: "good", says: `carried out: ${so}`, at };
  const says = `carried out: ${so}, but ${left} of them left out, because they had changed since the plan was made: compare again`;
  return { tone: "waits", says, at };
}
