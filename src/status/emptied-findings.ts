/** Fields that unusually many updates empty. Pure. */
import { isUnusual } from "../sync/emptied.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

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
