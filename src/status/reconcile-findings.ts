/** Differences that no plan has repaired, and what keeps reconciliations of daemons from their end. Pure. */
import { counted } from "../ops/counted.ts";
import type { ByKind } from "../state/reconciliations.ts";
import { clockTime } from "./clock-time.ts";
import { warning, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export const reconcileFindings = (readings: Readings): Finding[] => [
  ...folderFindings(readings),
  ...driftFindings(readings),
  ...leftOutFindings(readings),
  ...scheduleFindings(readings),
];

/** A due run begins within seconds; a listing may take long, and is then under way, ms. */
const OVERDUE_MS = 3_600_000;

/** Undefined without a schedule, and while a plan is carried out: that may take days, and no run is late then. */
export const nextRunAt = ({ isFeeding, reconcileNextAt }: Readings): number | undefined =>
  isFeeding ? undefined : reconcileNextAt;

function scheduleFindings(readings: Readings): Finding[] {
  const { now, reconcileNextAt, reconcileRuns } = readings;
  if (reconcileNextAt === undefined) return [];
  if (now - (nextRunAt(readings) ?? now) > OVERDUE_MS) {
    const says = `The scheduled reconciliation that was due at ${clockTime(reconcileNextAt)} has not ended: the log says why (reconcile.later).`;
    return [warning("crmsyncreconcileoverdue", says)];
  }
  const last = reconcileRuns.schedule;
  if (last === undefined || last.result === "success") return [];
  const how = last.result === "failed" ? "failed" : "stopped, and asks for a decision";
  const says = `The last scheduled reconciliation (${clockTime(last.at)}) has ${how}: its result in DATA_DIR/reconcile and the log say why.`;
  return [warning("crmsyncreconcileoverdue", says)];
}

/** Kinds that a plan repairs. */
const REPAIRED = ["missing", "different", "emptied", "terminated", "ended"] as const;

type Differences = ReturnType<typeof differencesIn>[number];

/** What earlier comparisons have found of other exports, which the last one does not repair, newest first. */
export function earlierDifferences({ openComparisons, reconciliation }: Readings): Differences[] {
  const before = reconciliation?.at ?? 0;
  return differencesIn(openComparisons.filter(({ at }) => at < before));
}

/** @returns when each comparison ended, what was compared ("": not known), and the relations that a plan can repair. */
const differencesIn = (
  all: readonly { readonly at: number; readonly drift: ByKind; readonly name?: string }[],
) =>
  all
    .map(({ at, drift, name = "" }) => {
      return { at, name, relations: REPAIRED.reduce((sum, kind) => sum + (drift[kind] ?? 0), 0) };
    })
    .filter(({ relations }) => relations > 0);

/** Whether the plan of the last comparison is carried out now, as far as is known. */
function isBeingRepaired({ feeding, isFeeding, reconciliation }: Readings): boolean {
  const plan = reconciliation?.planId;
  return isFeeding && (plan === undefined || feeding === undefined || feeding.id === plan);
}

function driftFindings(readings: Readings): Finding[] {
  const { reconciliation } = readings;
  if (reconciliation === undefined) return [];
  const last = isBeingRepaired(readings) ? [] : differencesIn([reconciliation]);
  const [newest, ...others] = [...last, ...earlierDifferences(readings)];
  if (newest === undefined) return [];
  const differ = counted(newest.relations, "relation differs", "relations differ");
  const found = `${differ} from the CRM, as the comparison ${comparisonText(newest)} found`;
  const says = `${found}${othersText(others)}: carry its plan out, or compare again (crmsync reconcile).`;
  return [warning("crmsyncdrift", says)];
}

const comparisonText = ({ at, name }: Pick<Differences, "at" | "name">): string =>
  `of ${name === "" ? "" : `${name}, `}${clockTime(at)}`;

function othersText(others: readonly Differences[]): string {
  const [first, ...more] = others;
  if (first === undefined) return "";
  const relations = others.reduce((sum, one) => sum + one.relations, 0);
  const which =
    more.length === 0
      ? `another one (${comparisonText(first)})`
      : `${others.length} others (the newest ${comparisonText(first)})`;
  return `; ${relations} more in ${which}`;
}

/** Fields that are named in a finding. */
const MOST_FIELDS = 5;

/** The CRM has values that the service does not get. */
function leftOutFindings({ reconciliation }: Readings): Finding[] {
  const { at = 0, leftOutValues = {}, name = "" } = reconciliation ?? {};
  const fields = Object.entries(leftOutValues).toSorted(([, a], [, b]) => b - a);
  if (fields.length === 0) return [];
  const sum = fields.reduce((all, [, count]) => all + count, 0);
  const named = fields.slice(0, MOST_FIELDS).map(([field, count]) => `${field} ${count}`);
  const more = fields.length > MOST_FIELDS ? ", …" : "";
  const says = `The comparison ${comparisonText({ at, name })} left out ${counted(sum, "value")} of the CRM that the mapping could not use (${named.join(", ")}${more}): the service keeps what it has there, unless the mapping has a fallback, a default or the rest of a list for it. Correct the export or the mapping.`;
  return [warning("values-were-left-out", says)];
}

function* folderFindings({ folder }: Readings): Iterable<Finding> {
  if (folder === undefined) return;
  const { failed, trouble, waiting } = folder;
  if (trouble !== undefined) {
    const waits = waiting === 0 ? "" : `; ${counted(waiting, "file waits", "files wait")}`;
    yield warning("crmsyncreconcileblocked", `RECONCILE_DIR: ${trouble}${waits}.`);
  }
  if (failed > 0) {
    const says = `${counted(failed, "export")} in RECONCILE_DIR/failed could not be used or ask for a decision: the .result.json beside each says why. Move it away when it is dealt with.`;
    yield warning("crmsyncreconcilefailed", says);
  }
}
