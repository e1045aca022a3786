/** Terminations that wait for a person's decision. Pure. */
import { counted } from "../ops/counted.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function terminationFindings({ terminations }: Readings): Finding[] {
  const { held, heldSince, limit } = terminations;
  if (held === 0 || heldSince === undefined) return [];
  const says = `${counted(held, "termination is held", "terminations are held")} since ${clockTime(heldSince)}, beyond TERMINATE_LIMIT (${limitNow(limit)}) or of a record that did not write its relation: release or drop them (crmsync held list). All other changes go on.`;
  return [finding("warning", "crmsyncheldterminations", says)];
}

/** The present limit, which may have been raised since the terminations were held. */
export const limitNow = (limit: number): string =>
  limit === Number.POSITIVE_INFINITY ? "now unlimited" : `${limit} in 24 hours`;
