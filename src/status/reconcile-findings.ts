/** Differences that no plan has repaired, and what keeps reconciliations of daemons from their end. Pure. */
import { counted } from "../ops/counted.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export const reconcileFindings = (readings: Readings): Finding[] => [
  ...folderFindings(readings),
  ...driftFindings(readings),
  ...scheduleFindings(readings),
];

/** A due run begins within seconds; a listing may take long, and is then under way, ms. */
const OVERDUE_MS = 3_600_000;

function scheduleFindings({ now, reconcileNextAt, reconcileRuns }: Readings): Finding[] {
  if (reconcileNextAt === undefined) return [];
  const warn = (runbook: string, says: string) => [finding("warning", runbook, says)];
  if (now - reconcileNextAt > OVERDUE_MS) {
    const says = `The scheduled reconciliation that was due at ${clockTime(reconcileNextAt)} has not ended: the log says why (reconcile.later).`;
    return warn("crmsyncreconcileoverdue", says);
  }
  const last = reconcileRuns.schedule;
  if (last === undefined || last.result === "success") return [];
  const how = last.result === "failed" ? "failed" : "stopped, and asks for a decision";
  const says = `The last scheduled reconciliation (${clockTime(last.at)}) has ${how}: its result in DATA_DIR/reconcile and the log say why.`;
  return warn("crmsyncreconcileoverdue", says);
}

/** Kinds that a plan repairs. */
const REPAIRED = ["missing", "different", "terminated", "ended"] as const;

function driftFindings({ isFeeding, openComparisons, reconciliation }: Readings): Finding[] {
  if (reconciliation === undefined || isFeeding) return [];
  // What another export has shown is not repaired by one that is equal.
  const others = openComparisons.filter(({ at }) => at < reconciliation.at);
  const found = [reconciliation, ...others].flatMap(({ at, drift }) => {
    const differ = REPAIRED.reduce((sum, kind) => sum + (drift[kind] ?? 0), 0);
    const text = counted(differ, "relation differs", "relations differ");
    return differ === 0
      ? []
      : [`${text} from the CRM, as the comparison of ${clockTime(at)} found`];
  });
  if (found.length === 0) return [];
  const says = `${found.join("; ")}: carry its plan out, or compare again (crmsync reconcile).`;
  return [finding("warning", "crmsyncdrift", says)];
}

function folderFindings({ folder }: Readings): Finding[] {
  if (folder === undefined) return [];
  const { failed, trouble, waiting } = folder;
  const found: Finding[] = [];
  if (trouble !== undefined) {
    const waits = waiting === 0 ? "" : `; ${counted(waiting, "file waits", "files wait")}`;
    found.push(finding("warning", "crmsyncreconcileblocked", `RECONCILE_DIR: ${trouble}${waits}.`));
  }
  if (failed > 0) {
    const says = `${counted(failed, "export", "exports")} in RECONCILE_DIR/failed could not be used or ask for a decision: the .result.json beside each says why. Move it away when it is dealt with.`;
    found.push(finding("warning", "crmsyncreconcilefailed", says));
  }
  return found;
}
