/** Changes that wait for a person's decision. Pure. */
import { counted } from "../ops/counted.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function terminationFindings({ terminations }: Readings): Finding[] {
  const { held, heldSince, limit } = terminations;
  if (held === 0 || heldSince === undefined) return [];
  const says = `${counted(held, "change is held", "changes are held")} since ${clockTime(heldSince)}: terminations beyond TERMINATE_LIMIT (${limitNow(limit)}) or of a record that did not write its relation, or updates that empty fields beyond EMPTY_LIMIT. Release or drop them (crmsync held list). All other changes go on.`;
  return [finding("warning", "crmsyncheldterminations", says)];
}

/** The present limit, which may have been raised since the terminations were held. */
export const limitNow = (limit: number): string =>
  limit === Number.POSITIVE_INFINITY ? "now unlimited" : `${limit} in 24 hours`;
