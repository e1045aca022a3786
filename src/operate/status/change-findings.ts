/** What is wrong with changes although they flow: rejected, retried without success, slow, or without some values. Pure. */
import { crmsync } from "../../base/command.ts";
import type { MostRetried } from "../../core/state/line.ts";
import type { HeldWhy } from "../../core/sync/record.ts";
import { inWords } from "../../core/sync/service-reply.ts";
import { clockTime, duration } from "./clock-time.ts";
import { finding, warning, type Finding } from "./finding.ts";
import { unfinished } from "./stops.ts";
import type { Rejections, Slowness } from "./slowness.ts";
import { counted } from "../../base/counted.ts";
import { isOver } from "../../core/state/approvals.ts";
import { isUnusual } from "../../core/sync/emptied.ts";
import { aboutText, askedText, endText, namedMapping } from "./approval-text.ts";
import type { Readings } from "./readings.ts";
import type { PullState } from "../../core/state/pulls.ts";
import type { ByKind } from "../../core/state/reconciliations.ts";

export function rejectionFindings(rejections: readonly Rejections[]): Finding[] {
  return rejections.map(({ role, since, rejected, checked, top }) => {
    const percent = Math.round((100 * rejected) / checked);
    const which = role === "intake" ? "changes" : "changes sent";
    const says = `${percent} % of the ${which} since ${clockTime(since)} were rejected (${rejected} of ${checked}), ${mostText(rejected, top)}.`;
    return finding("critical", "crmsyncchangesrejected", says);
  });
}

function mostText(rejected: number, { reason, field, count }: Rejections["top"]): string {
  const [what, filter]: [string, string[]] =
    field === "none" || field === "other"
      ? [reason, ["--reason", reason]]
      : [`${field} (${reason})`, ["--field", field]];
  const share =
    count === rejected
      ? `all for ${what}`
      : count > rejected / 2
        ? `most for ${what}`
        : `for several reasons, most often ${what}, ${count} times`;
  return `${share}: ${crmsync`dead list ${filter}`}`;
}

export function retryFindings(retried: MostRetried | undefined): Finding[] {
  if (retried === undefined) return [];
  const { records, tries, since, record } = retried;
  const reason = inWords(retried.reason);
  const tried = `retried ${tries === 1 ? "once" : `${tries} times`} since ${clockTime(since)}`;
  const says =
    records === 1
      ? `1 record has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`
      : `${records} records fail and are to be retried; one has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`;
  return [warning("one-record-is-missing", says)];
}

/** @param record the hash of the crmCode of one of them */
export function lostChangeFindings(changes: number, record: string | undefined): Finding[] {
  if (changes === 0 || record === undefined) return [];
  const isOne = changes === 1;
  const whose = isOne
    ? "The newest change of 1 record"
    : `The newest changes of ${changes} records`;
  const says = `${whose} may not be on the service: what waited is gone from Redis, or damaged there; or a late request has replaced it, because Redis went back or a process stood still. Send the ${isOne ? "record" : "records"} again from the CRM, or compare (${crmsync`reconcile`}). The hash of ${isOne ? "its" : "the first"} crmCode is ${record}.`;
  return [warning("one-record-is-missing", says)];
}

export function slownessFindings(slowness: Slowness | undefined): Finding[] {
  if (slowness === undefined) return [];
  const { since, recentMs, usualMs } = slowness;
  const says = `The service has been slow since ${clockTime(since)}: half of its replies take ${seconds(recentMs)} or longer; usual are ${seconds(usualMs)}.`;
  return [warning("crmsyncserviceslow", says)];
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;

type Outcomes = Readonly<Record<string, number>>;

/** So many values of one field are more than a few typing mistakes. */
const MANY = 5;

/** Of the records that came; the same share stops an unattended comparison. */
const UNUSUAL_SHARE = 0.1;

/** @param outcomes `left_out <field>` → how many; most first. */
export const leftOutIn = (outcomes: Outcomes): { field: string; count: number }[] =>
  Object.entries(outcomes)
    .flatMap(([name, count]) => {
      const field = /^left_out (.+)$/.exec(name)?.[1];
      return field === undefined || count === 0 ? [] : [{ field, count }];
    })
    .sort((a, b) => b.count - a.count || (a.field < b.field ? -1 : 1));

/** @param outcomes also `checked intake passed`: how many changes came. */
export function leftOutFindings(outcomes: Outcomes): Finding[] {
  const all = outcomes["checked intake passed"] ?? 0;
  const unusual = leftOutIn(outcomes).filter(
    ({ count }) => count >= MANY && count > UNUSUAL_SHARE * all,
  );
  if (unusual.length === 0) return [];
  const named = unusual.map(({ count, field }) => `${field} ${count}`).join(", ");
  const says = `The mapping could not use these values of the ${all} changes of the last hour: ${named}. The service keeps what it has there, unless the mapping has a fallback, a default or the rest of a list for it: look at one of the records (${crmsync`why NAME`}, ${crmsync`preview`}).`;
  return [warning("values-were-left-out", says)];
}

export function terminationFindings({ emptyLimit, terminations }: Readings): Finding[] {
  const { held, heldBy, heldSince, limit } = terminations;
  if (held === 0 || heldSince === undefined) return [];
  const because: Readonly<Record<HeldWhy, string>> = {
    emptied: `for emptying fields beyond EMPTY_LIMIT (${limitNow(emptyLimit, "an hour")})`,
    limit: `beyond TERMINATE_LIMIT (${limitNow(limit, "24 hours")})`,
    other_record: "of a record that did not write its relation",
    differs: "of a relation that the service shows otherwise than crmsync has written it",
  };
  // A reason that this build does not know counts as none.
  const reasons = Object.entries(heldBy)
    .filter(([why]) => why in because)
    .sort(([, a], [, b]) => b - a);
  const known = reasons.reduce((sum, [, count]) => sum + count, 0);
  const updates = heldBy.emptied ?? 0;
  const kinds = [
    ...(updates > 0 ? [counted(updates, "update")] : []),
    ...(known > updates ? [counted(known - updates, "termination")] : []),
  ].join(" and ");
  const isAll = known >= held;
  const what = isAll ? kinds : counted(held, "change");
  const why = reasons.map(([name, count]) => {
    const many = isAll ? `${count} ` : `at least ${count} `;
    return `${isAll && reasons.length === 1 ? "" : many}${because[name as HeldWhy]}`;
  });
  const says = `${what} ${held === 1 ? "is" : "are"} held since ${clockTime(heldSince)}${why.length > 0 ? `: ${why.join(", ")}` : ""}. Release or drop them (${crmsync`held list`}). All other changes go on.`;
  return [warning("crmsyncheldterminations", says)];
}

/** The present limit, which may have been raised since the changes were held. */
const limitNow = (limit: number, time: string): string =>
  limit === Number.POSITIVE_INFINITY ? "now unlimited" : `${limit} in ${time}`;

/** How many fields one sentence names. */
const NAMED = 3;

/** Once nothing is held any more, a person has decided about them. */
export const unusuallyEmptied = ({
  emptied,
  emptyLimit,
  terminations,
}: Readings): Readings["emptied"] =>
  terminations.held === 0 ? [] : emptied.filter((field) => isUnusual(field, emptyLimit));

export function emptiedFindings(readings: Readings): Finding[] {
  const fields = unusuallyEmptied(readings);
  if (fields.length === 0) return [];
  const named = fields
    .slice(0, NAMED)
    .map(({ emptied, field, updated }) => `${field} on ${emptied} of ${updated} relations`)
    .join(", ");
  const more = fields.length > NAMED ? `, and ${fields.length - NAMED} more fields` : "";
  const says = `Updates of the last hour empty ${named}${more}: has the CRM's user lost a right, or was a property renamed? Beyond EMPTY_LIMIT (${readings.emptyLimit}) they are held, and the service keeps its values: release or drop them (${crmsync`held list`}).`;
  return [finding("critical", "crmsyncfieldsemptied", says)];
}

/** Section of docs/runbook.md. */
const MAPPING_WAITS = "the-mapping-waits-for-approval";

/** Most that are named; the others are in crmsync approvals list. */
const MOST_NAMED = 10;

export const approvalFindings = ({
  approvals,
  deadLetters,
  now,
  terminations,
}: Readings): Finding[] =>
  approvals
    .filter((one) => one.state === "open" && !isOver(one, now))
    // Newer events may have replaced all that they are about.
    .filter(({ act }) => act !== "held" || terminations.held > 0)
    .filter(({ act }) => act !== "drop" || deadLetters > 0)
    .sort((a, b) => a.askedAt - b.askedAt)
    .slice(0, MOST_NAMED)
    .map((one) => {
      const says = `1 act waits for approval: ${one.asker.by} asks to ${askedText(one)}: ${aboutText(one)}. It ${endText(one)} (${crmsync`approvals approve ${one.id}`}).`;
      return warning("an-act-waits-for-approval", says, one.id);
    });

/** Events stay in the inbox meanwhile; what was staged before is sent. */
export function* mappingFindings(readings: Readings): Iterable<Finding> {
  const { approvals, inboxJobs, now, processes } = readings;
  const all = processes.flatMap(({ mappingWaits }) => mappingWaits ?? []);
  const events = counted(unfinished(inboxJobs), "event waits", "events wait");
  for (const [named, [one, ...others]] of Map.groupBy(all, namedMapping)) {
    if (one === undefined) continue;
    const { hash } = one;
    const since = clockTime(Math.min(one.since, ...others.map((other) => other.since)));
    const ask = approvals.find(
      ({ mapping, ...asked }) =>
        mapping !== undefined &&
        mapping.hash === hash &&
        asked.state === "open" &&
        now < asked.expiresAt,
    );
    const next =
      hash === undefined
        ? "It is a module, which cannot be approved: use a mapping file"
        : ask === undefined
          ? `Ask for it: ${crmsync`shadow report --mapping FILE --ask`}`
          : `${ask.asker.by} has asked for it: ${crmsync`approvals approve ${ask.id}`}`;
    const says = `The mapping ${named} waits for a second person's approval since ${since}: ${events} unmapped. ${next}.`;
    yield finding("critical", MAPPING_WAITS, says, named);
  }
}

export const crmFindings = ({ crmChecks }: Pick<Readings, "crmChecks">): Finding[] =>
  Object.entries(crmChecks).flatMap(([crm, { lines }]) =>
    lines.flatMap(({ result, says, what }) => {
      if (result === "ok") return [];
      const severity = result === "fail" ? "critical" : "warning";
      return [
        finding(
          severity,
          "a-crm-is-not-as-the-mapping-needs-it",
          `${crm}, ${what}: ${says}.`,
          `${crm} ${what}`,
        ),
      ];
    }),
  );

/** Fewer records may all have been deleted. */
const FEW = 3;

/** @param outcomes `fetched <crm> found` and `fetched <crm> dropped` → how many in the last hour. */
export function fetchFindings(outcomes: Readonly<Record<string, number>>): Finding[] {
  return Object.entries(outcomes).flatMap(([name, dropped]) => {
    const crm = /^fetched (\S+) dropped$/.exec(name)?.[1];
    if (crm === undefined || dropped < FEW) return [];
    if ((outcomes[`fetched ${crm} found`] ?? 0) > 0) return [];
    const says = `${crm} had none of the ${dropped} changed records that were requested in the last hour, so their changes have ended: its credentials may be of another account, or may not read these records. Correct them, and reconcile.`;
    return [finding("critical", "the-crm-has-none-of-the-records", says, crm)];
  });
}

/** After so many pulls that have not brought all changes, something is wrong. */
const LATE_PULLS = 3;

/** A pull itself may take so long, ms: after an import it has many pages. */
const SLOW_MS = 600_000;

/** A clock that is wrong by less is not worth a finding, ms. */
const SKEW_MS = 10_000;

/** A cursor that was lost is named for so long, ms, or until the next comparison. */
const LOST_NAMED_MS = 7 * 86_400_000;

/** When it was last known to be complete, ms. */
export const completeAt = ({ at, since }: PullState): number => at ?? since;

const isListing = ({ objects }: PullState): boolean =>
  Object.values(objects).some(({ listing }) => listing !== undefined);

/** CRMs whose changes have not come for too long; a listing of all records takes its time. */
export const overduePulls = ({ now, pulls }: Pick<Readings, "now" | "pulls">): string[] =>
  Object.entries(pulls).flatMap(([crm, state]) => {
    const isLate = now - completeAt(state) > LATE_PULLS * state.everyMs + SLOW_MS;
    return isLate && (!isListing(state) || state.failure !== undefined) ? [crm] : [];
  });

/** @param outcomes `pull_missed <crm>` → how many in the last hour. */
export function* pullFindings(
  {
    crmChecks,
    now,
    pulls,
    reconciliation,
  }: Pick<Readings, "crmChecks" | "now" | "pulls" | "reconciliation">,
  outcomes: Readonly<Record<string, number>>,
): Iterable<Finding> {
  const overdue = new Set(overduePulls({ now, pulls }));
  for (const [crm, state] of Object.entries(pulls)) {
    const { failure, lost } = state;
    const isOverdue = overdue.has(crm);
    const severity = isOverdue ? "critical" : "warning";
    if (failure !== undefined) {
      const says = `${crm} has not told its changes since ${clockTime(completeAt(state))} (${failure.why}); it is asked again, with growing pauses.`;
      yield finding(severity, "crmsyncpulloverdue", says, crm);
    } else if (isOverdue) {
      const says = `${crm} was last asked for all its changes at ${clockTime(completeAt(state))}, and is to be asked every ${duration(state.everyMs)}: is a process with the role intake and PULL_FROM running?`;
      yield finding(severity, "crmsyncpulloverdue", says, crm);
    }
    const isNamed = lost !== undefined && now - lost.at < LOST_NAMED_MS;
    if (isNamed && (reconciliation?.at ?? 0) < lost.at) {
      const says = `At ${clockTime(lost.at)}, ${crm} could no longer tell everything that has changed since ${clockTime(lost.since)}: all its records are listed in the lane bulk. What was deleted meanwhile is found by a comparison (${crmsync`reconcile --from ${crm}`}).`;
      yield warning("a-crm-has-lost-the-place-of-a-pull", says, crm);
    }
    const { skewMs = 0 } = state;
    const isTold = crmChecks[crm]?.lines.some((one) => one.what === "clock" && one.result !== "ok");
    if (Math.abs(skewMs) > SKEW_MS && isTold !== true) {
      const side = skewMs > 0 ? "ahead of" : "behind";
      const says = `The clock of ${crm} is ${duration(Math.abs(skewMs))} ${side} Redis' clock. Pulls allow for it, and no change is lost; its changes may look later or earlier than they were.`;
      yield warning("the-clock-of-a-crm-is-wrong", says, crm);
    }
    const undated = outcomes[`pull_undated ${crm}`] ?? 0;
    if (undated > 0) {
      const says = `In the last hour ${crm} has told ${counted(undated, "change")} without a usable time of the last change: they count as of the moment when they were read. Is \`time\` (and \`zone\`) right under \`pull\` in the mapping? Log: pull.undated.`;
      yield warning("records-come-without-a-time", says, crm);
    }
    const missed = outcomes[`pull_missed ${crm}`] ?? 0;
    if (missed > 0) {
      const says = `In the last hour ${crm} was found to have ${counted(missed, "change")} of which no webhook had told: they are on their way now. Webhooks get lost, or one is missing (${crmsync`doctor`}).`;
      yield warning("webhooks-get-lost", says, crm);
    }
  }
}

export const reconcileFindings = (readings: Readings): Finding[] => [
  ...folderFindings(readings),
  ...driftFindings(readings),
  ...comparedLeftOutFindings(readings),
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
  const says = `${found}${othersText(others)}: carry its plan out, or compare again (${crmsync`reconcile`}).`;
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
function comparedLeftOutFindings({ reconciliation }: Readings): Finding[] {
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
