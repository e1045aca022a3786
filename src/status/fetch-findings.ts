/** CRMs that have none of the records that their events name. Pure. */
import { finding, type Finding } from "./finding.ts";

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
