import type { DeadReason } from "../sync/dead-letter.ts";
import type { Problem } from "../event/problem.ts";

/** Most problems that one sentence names. */
const MOST = 3;

/** Fields and rules, such as `birthDate must be a date`; no values. */
export function problemsText(
  reason: DeadReason,
  problems: readonly Pick<Problem, "field" | "rule">[],
): string {
  if (problems.length === 0) return reason;
  const named = problems.slice(0, MOST).map(({ field, rule }) => `${field} ${rule}`.trim());
  const more = problems.length - named.length;
  return `${named.join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
}
