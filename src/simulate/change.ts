import type { Lane } from "../event/lane.ts";

/** One change of one record. */
export interface Change {
  /** When it happened and arrived, ms. */
  readonly at: number;
  readonly record: number;
  /** Undefined: `live`. */
  readonly lane?: Lane;
  /** The whole state that the record has after it; equal numbers are equal states. Without it, a new state. */
  readonly state?: number;
  /** The change brings no fields, so the relation must be read before it is written. */
  readonly bare?: boolean;
  /** The record is new, so that its relation must be created. */
  readonly creates?: boolean;
}

export const laneOf = ({ lane }: Change): Lane => lane ?? "live";
