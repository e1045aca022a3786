/** How one run of a record ended, and what its pointer job does next. */
import type { Outcome } from "./outcomes.ts";
import type { Problem } from "./problem.ts";

export type Next =
  | { readonly kind: "complete" }
  /** Runs again at once, before all others; no try is counted. */
  | { readonly kind: "again" }
  /** Waits in the lane bulk, which is paused. */
  | { readonly kind: "parked" }
  | { readonly kind: "later"; readonly at: number };

export interface RunEnd {
  readonly next: Next;
  /** Absent when the change did not end: the record was healed, is held by another, or is gone. */
  readonly outcome?: Outcome;
  /** Finer than the outcome, for counters and the log. */
  readonly reason?: string;
  readonly problems?: readonly Problem[];
}
