/** What is wrong with changes although they flow: rejected, retried without success, slow, or without some values. Pure. */
import type { MostRetried } from "../state/line.ts";
import { inWords } from "../sync/service-reply.ts";
import { clockTime } from "./clock-time.ts";
import { finding, warning, type Finding } from "./finding.ts";
import type { Rejections } from "./rejections.ts";
import type { Slowness } from "./slowness.ts";
import { counted } from "../ops/counted.ts";
import { isOver } from "../state/approvals.ts";
import { isUnusual } from "../sync/emptied.ts";
import { askedText, endText } from "./approval-text.ts";
import type { Readings } from "./readings.ts";

export function rejectionFindings(rejections: readonly Rejections[]): Finding[] {
  return rejections.map(({ role, since, rejected, checked, top }) => {
    const percent = Math.round((100 * rejected) / checked);
    const which = role === "intake" ? "changes" : "changes sent";
    const says = `${percent} % of the ${which} since ${clockTime(since)} were rejected (${rejected} of ${checked}), ${mostText(rejected, top)}.`;
    return finding("critical", "crmsyncchangesrejected", says);
  });
}

function mostText(rejected: number, { reason, field, count }: Rejections["top"]): string {
  const [what, filter] =
    field === "none" || field === "other"
      ? [reason, `--reason ${reason}`]
      : [`${field} (${reason})`, `--field ${field}`];
  const share =
    count === rejected
      ? `all for ${what}`
      : count > rejected / 2
        ? `most for ${what}`
        : `for several reasons, most often ${what}, ${count} times`;
  return `${share}: crmsync dead list ${filter}`;
}

export function retryFindings(retried: MostRetried | undefined): Finding[] {
  if (retried === undefined) return [];
  const { records, tries, since, record } = retried;
  const reason = inWords(retried.reason);
  const tried = `retried ${tries} times since ${clockTime(since)}`;
  const says =
    records === 1
      ? `1 record has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`
      : `${records} records fail and are to be retried; one has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`;
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
  const says = `The mapping could not use these values of the ${all} changes of the last hour: ${named}. The service keeps what it has there, unless the mapping has a fallback, a default or the rest of a list for it: look at one of the records (crmsync why NAME, crmsync preview).`;
  return [warning("values-were-left-out", says)];
}

export function terminationFindings({ terminations }: Readings): Finding[] {
  const { held, heldSince, limit } = terminations;
  if (held === 0 || heldSince === undefined) return [];
  const says = `${counted(held, "change is held", "changes are held")} since ${clockTime(heldSince)}: terminations beyond TERMINATE_LIMIT (${limitNow(limit)}) or of a record that did not write its relation, or updates that empty fields beyond EMPTY_LIMIT. Release or drop them (crmsync held list). All other changes go on.`;
  return [warning("crmsyncheldterminations", says)];
}

/** The present limit, which may have been raised since the terminations were held. */
const limitNow = (limit: number): string =>
  limit === Number.POSITIVE_INFINITY ? "now unlimited" : `${limit} in 24 hours`;

/** How many fields one sentence names. */
const NAMED = 3;

export const unusuallyEmptied = ({ emptied, emptyLimit }: Readings): Readings["emptied"] =>
  emptied.filter((field) => isUnusual(field, emptyLimit));

export function emptiedFindings(readings: Readings): Finding[] {
  const fields = unusuallyEmptied(readings);
  if (fields.length === 0) return [];
  const named = fields
    .slice(0, NAMED)
    .map(({ emptied, field, updated }) => `${field} on ${emptied} of ${updated} relations`)
    .join(", ");
  const more = fields.length > NAMED ? `, and ${fields.length - NAMED} more fields` : "";
  const says = `Updates of the last hour empty ${named}${more}: has the CRM's user lost a right, or was a property renamed? Beyond EMPTY_LIMIT (${readings.emptyLimit}) they are held, and the service keeps its values: release or drop them (crmsync held list).`;
  return [finding("critical", "crmsyncfieldsemptied", says)];
}

/** Most that are named; the others are in crmsync approvals list. */
const MOST_NAMED = 10;

export const approvalFindings = ({ approvals, now }: Readings): Finding[] =>
  approvals
    .filter((one) => one.state === "open" && !isOver(one, now))
    .sort((a, b) => a.askedAt - b.askedAt)
    .slice(0, MOST_NAMED)
    .map((one) => {
      const says = `1 act waits for approval: ${one.asker.by} asks to ${askedText(one)}. It ${endText(one)} (crmsync approvals approve ${one.id}).`;
      return warning("an-act-waits-for-approval", says, one.id);
    });
