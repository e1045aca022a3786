/** Finds the dead letters that an operator describes. Keeps only their ids: the events stay in Redis. */
import type { DeadLetters, LetterDetails } from "../../core/state/dead-letters.ts";
import { problemFields } from "../../core/sync/outcomes.ts";
import { groupsOf } from "./group-of.ts";

/** What must be true of a dead letter; without a filter, all are selected. */
export interface Filter {
  readonly reason?: string;
  /** A field of the service or the event, as the metrics name it. */
  readonly field?: string;
  readonly source?: string;
  /** Id of a group. */
  readonly inGroup?: string;
  /** Last stored no later than then, ms: it is what a person has seen. */
  readonly until?: number;
}

export function fits(
  letter: LetterDetails,
  { reason, field, source, inGroup, until }: Filter,
): boolean {
  return (
    (reason === undefined || letter.reason === reason) &&
    (source === undefined || letter.source === source) &&
    (field === undefined || problemFields(letter.problems).includes(field)) &&
    (until === undefined || letter.at <= until) &&
    (inGroup === undefined || groupsOf(letter).some(({ id }) => id === inGroup))
  );
}

/** Ids of the dead letters that fit the filter, oldest first. */
export async function selectIds(dead: DeadLetters, filter: Filter): Promise<string[]> {
  const found: { readonly id: string; readonly firstAt: number }[] = [];
  for await (const letter of dead.details()) {
    if (fits(letter, filter)) found.push({ id: letter.id, firstAt: letter.firstAt });
  }
  return found.sort((a, b) => a.firstAt - b.firstAt).map(({ id }) => id);
}
