/** What makes dead letters belong together: the same fault, whatever record it is in. Pure. */
import { createHash } from "node:crypto";
import type { DeadReason } from "../../core/sync/dead-letter.ts";
import type { Problem } from "../../core/event/problem.ts";

export interface GroupKey {
  /** `g:` and ten hexadecimal digits; the same at every time, in every process. */
  readonly id: string;
  readonly reason: DeadReason;
  /** Without the index in a list; "" for the whole record or event. */
  readonly field: string;
  /** "" where the dead letter names no problem. */
  readonly rule: string;
}

export const GROUP_ID = /^g:[0-9a-f]{10}$/;

const NO_PROBLEM = { field: "", rule: "" };

/** The groups of one dead letter, each once: one for each of its problems. */
export function groupsOf(letter: {
  readonly reason: DeadReason;
  readonly problems: readonly Pick<Problem, "field" | "rule">[];
}): GroupKey[] {
  const { reason } = letter;
  const problems = letter.problems.length === 0 ? [NO_PROBLEM] : letter.problems;
  const groups = problems.map(({ field, rule }) => {
    const key = { reason, field: field.replace(/\[\d+\]/g, ""), rule };
    return { id: idOf(key), ...key };
  });
  return [...new Map(groups.map((group) => [group.id, group])).values()];
}

function idOf({ reason, field, rule }: Omit<GroupKey, "id">): string {
  const hash = createHash("sha256")
    .update(JSON.stringify([reason, field, rule]))
    .digest("hex");
  return `g:${hash.slice(0, 10)}`;
}
