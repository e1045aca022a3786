/** CRMs: whether they are as the mapping needs them, return their records, and tell their changes. Pure. */
import { counted } from "../ops/counted.ts";
import type { PullState } from "../state/pulls.ts";
import { clockTime, duration } from "./clock-time.ts";
import { finding, warning, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

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
      const says = `At ${clockTime(lost.at)}, ${crm} could no longer tell everything that has changed since ${clockTime(lost.since)}: all its records are listed in the lane bulk. What was deleted meanwhile is found by a comparison (crmsync reconcile --from ${crm}).`;
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
      const says = `In the last hour ${crm} was found to have ${counted(missed, "change")} of which no webhook had told: they are on their way now. Webhooks get lost, or one is missing (crmsync doctor).`;
      yield warning("webhooks-get-lost", says, crm);
    }
  }
}
