/** How one run of a record ended. */
import type { FieldChange } from "./marks.ts";
import type { Outcome } from "./outcomes.ts";
import type { Problem } from "../event/problem.ts";

export interface RunEnd {
  /** Whether the change has ended; otherwise the record stands in the line again, or waits for a person. */
  readonly finished: boolean;
  /** Absent when the change did not end: the record was healed, is held by another, or is gone. */
  readonly outcome?: Outcome;
  /** Finer than the outcome, for counters and the log. */
  readonly reason?: string;
  readonly problems?: readonly Problem[];
  /** Of `updated`, where it is known. */
  readonly change?: FieldChange | undefined;
}
