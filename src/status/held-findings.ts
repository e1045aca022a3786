/** What waits for a person's decision. Pure. */
import { counted } from "../ops/counted.ts";
import { isOver } from "../state/approvals.ts";
import { isUnusual } from "../sync/emptied.ts";
import { askedText, endText } from "./approval-text.ts";
import { clockTime } from "./clock-time.ts";
import { finding, warning, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function terminationFindings({ terminations }: Readings): Finding[] {
  const { held, heldSince, limit } = terminations;
  if (held === 0 || heldSince === undefined) return [];
  const says = `${counted(held, "change is held", "changes are held")} since ${clockTime(heldSince)}: terminations beyond TERMINATE_LIMIT (${limitNow(limit)}) or of a record that did not write its relation, or updates that empty fields beyond EMPTY_LIMIT. Release or drop them (crmsync held list). All other changes go on.`;
  return [warning("crmsyncheldterminations", says)];
}

/** The present limit, which may have been raised since the terminations were held. */
export const limitNow = (limit: number): string =>
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
