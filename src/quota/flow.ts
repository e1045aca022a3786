/** What pacing knows of the live changes that come and wait. */
import { SLICES_KEPT, sliceMs } from "../sync/slices.ts";

export interface Flow {
  /** Changes in each of the last SLICES_KEPT whole slices of the hour, newest first. */
  readonly demand: readonly number[];
  /** Changes in the current slice, and the part of it that has passed, 0 to 1. */
  readonly current: { readonly changed: number; readonly passed: number };
  /** Live records that may be sent now. */
  readonly waiting: number;
  /** The rank of the one that is served next; undefined when none waits. */
  readonly lowestRank: number | undefined;
}

/** The part of snapshot.lua's reply that is read here. */
export interface RawFlow {
  /** Changes in the present slice and in those before it, newest first. */
  readonly slices: readonly number[];
  readonly waiting: number;
  readonly lowestRank?: number;
}

export function readFlow(raw: RawFlow, now: number, hourMs: number): Flow {
  const [changed = 0, ...demand] = raw.slices;
  const passed = (now / sliceMs(hourMs)) % 1;
  const { lowestRank, waiting } = raw;
  return {
    demand: demand.slice(0, SLICES_KEPT),
    current: { changed, passed },
    waiting,
    lowestRank,
  };
}
