/** Fields whose values the mapping could hardly use of late. Pure. */
import { finding, type Finding } from "./finding.ts";

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
  const says = `The mapping could not use these values of the ${all} changes of the last hour: ${named}. The service keeps what it has there: look at one of the records (crmsync why NAME, crmsync preview).`;
  return [finding("warning", "values-were-left-out", says)];
}
