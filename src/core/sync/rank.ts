/**
 * The order in which permits are spent: the lowest rank first. A record's lead (the time now minus its rank) is
 * also what pacing asks for: the more turns have been taken early, the larger a lead must be. A request for a record
 * that will not change again soon saves nothing by waiting, so a record's usual gap counts as if it had waited.
 * Pure; the simulation runs the same code. Times in ms.
 */
import type { Pace } from "./ledger-row.ts";

/** This part of a record's usual gap counts as waiting: holding back a rare change saves nothing. */
const GAP_COUNTS = 0.2;

/**
 * Each further change adds this part of the largest lead: one request settles all of them. It adds at
 * most this part of the hour, or else hot records would keep passing those that have waited for long.
 */
const CHANGE_ADDS = 0.03;
const ADDS_AT_MOST = 1 / 90;

/** For how long a record is watched that has changed for the first time, and how fast the counts fade, in hours. */
const WATCHED = 1 / 24;
const FADING = 1 / 2;

/** Until more is known, as if this many records had changed again after an hour. */
const SUPPOSED = 2;

/** What records did after their first change; the counts fade. */
export interface FirstChanges {
  /** Records that changed for the first time, and those that changed again while watched. */
  readonly seen: number;
  readonly again: number;
  /** Sum of the gaps between these two changes. */
  readonly gapsMs: number;
  /** When this was counted. */
  readonly at: number;
}

export const NO_FIRST_CHANGES: FirstChanges = { seen: 0, again: 0, gapsMs: 0, at: 0 };

/** Learns from one change of a record. `isFirst`: its counts have changed, too. */
export function learn(
  pace: Pace | undefined,
  counted: FirstChanges,
  now: number,
  hourMs: number,
): { readonly pace: Pace; readonly first: FirstChanges } {
  const first = faded(counted, now, hourMs);
  const since = now - (pace?.changedAt ?? Number.NEGATIVE_INFINITY);
  // After an hour without a change a record is as good as new.
  if (pace === undefined || since > hourMs) {
    return {
      pace: { changedAt: now, gapMs: undefined },
      first: { ...first, seen: first.seen + 1 },
    };
  }
  const gap = Math.max(hourMs / 7200, since);
  if (pace.gapMs !== undefined) {
    return {
      pace: { changedAt: now, gapMs: Math.round(Math.sqrt(pace.gapMs * gap)) },
      first: counted,
    };
  }
  const learnt = { changedAt: now, gapMs: Math.round(gap) };
  if (since > WATCHED * hourMs) return { pace: learnt, first: counted };
  return { pace: learnt, first: { ...first, again: first.again + 1, gapsMs: first.gapsMs + gap } };
}

function faded(
  { again, at, gapsMs, seen }: FirstChanges,
  now: number,
  hourMs: number,
): FirstChanges {
  const part = (FADING * hourMs) / (FADING * hourMs + Math.max(0, now - at));
  return { seen: seen * part, again: again * part, gapsMs: gapsMs * part, at: now };
}

/** The usual gap of a record: its own, or what records do that have changed once. At most an hour. */
export function gapOf(
  { gapMs }: Pace,
  { again, gapsMs, seen }: FirstChanges,
  hourMs: number,
): number {
  if (gapMs !== undefined) return Math.min(hourMs, gapMs);
  const watched = Math.max(0, seen - again) * WATCHED * hourMs + gapsMs;
  return Math.min(hourMs, (watched + SUPPOSED * hourMs) / (again + SUPPOSED));
}

/** Where a live record stands in the line, and what its change teaches. @param lowestRank of those that wait */
export function placeOf(
  pace: Pace | undefined,
  counted: FirstChanges,
  { now, lowestRank }: { readonly now: number; readonly lowestRank: number | undefined },
  hourMs: number,
) {
  const learnt = learn(pace, counted, now, hourMs);
  const lead = Math.max(0, now - (lowestRank ?? now));
  const rank = {
    first: rankOf(now, gapOf(learnt.pace, learnt.first, hourMs), lead),
    again: (waiting: number) => rankAgain(waiting, lead, hourMs),
  };
  return { ...learnt, rank };
}

/** The rank of a record that begins to wait. @param gap its usual gap */
export const rankOf = (now: number, gap: number, lead: number): number =>
  Math.floor(now - gapCounts(gap, lead));

/** The rank of a record that waits and has changed again: it only ever moves forward. */
export const rankAgain = (rank: number, lead: number, hourMs: number): number =>
  Math.floor(rank - Math.min(CHANGE_ADDS * lead, ADDS_AT_MOST * hourMs));

/** How much of a usual gap counts: less when others have waited for longer, since gaps are estimates. */
function gapCounts(gap: number, lead: number): number {
  const counts = GAP_COUNTS * gap;
  const part = Math.min(1, counts / Math.max(1, lead));
  return counts * part * Math.sqrt(part);
}

/** Changes are counted per slice of the hour, at intake as in the pacer; docs/adr/0026 explains the figures. */
const SLICES_PER_HOUR = 120;

/** Whole slices that pacing considers. */
export const SLICES_KEPT = 9;

export const sliceMs = (hourMs: number): number => hourMs / SLICES_PER_HOUR;

/** The number of the slice that a time is in. */
export const sliceOf = (now: number, hourMs: number): number => Math.floor(now / sliceMs(hourMs));

/** For how long the count of a slice is needed, ms. */
export const sliceLastsMs = (hourMs: number): number =>
  Math.ceil((SLICES_KEPT + 2) * sliceMs(hourMs));

/** A flow is at most this many times the weaker of its two newest slices. */
const RISE = 4;

/**
 * The flow of changes per ms: the mean of the newest slices without a gap, at least two. A storm, however large,
 * leaves the slices after it empty.
 * @param demand changes in each of the newest whole slices, newest first
 */
export function flowOf(demand: readonly number[], hourMs: number): number {
  const gap = demand.indexOf(0);
  const run = demand.slice(0, gap === -1 ? demand.length : gap);
  const [newest, second] = run;
  if (newest === undefined || second === undefined) return 0;
  const mean = run.reduce((sum, changed) => sum + changed, 0) / run.length;
  return Math.min(mean, RISE * newest, RISE * second) / sliceMs(hourMs);
}
