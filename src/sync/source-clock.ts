/**
 * Notices that the clock of a source was set back: its events are dated before those that it sent earlier, all
 * by the same time, while they keep arriving. By its own times, each new edit would count as older than the
 * last one, and change nothing. Pure; times in ms.
 */

export interface SourceClock {
  /** The latest time that its events were ordered by. */
  readonly newest: number;
  /** How long before its arrival the first event of the run was dated. */
  readonly behindMs: number;
  /** Events in a row that were dated before the newest by the same time, and when the first one arrived. */
  readonly run: number;
  readonly since: number;
  /** Its events count as of their arrival. */
  readonly isBack: boolean;
}

/** Events that overtake each other on the way differ by less. */
const BEFORE_MS = 30_000;

/** How much the time on the way varies. Late deliveries of a queue that is drained vary by more. */
const JITTER_MS = 5000;

/** A run is believed when it is as long as this, in events and in time: a few events may be delivered again. */
const RUN = 3;
const RUN_MS = 5000;

/** Nothing is known of it yet. */
export const AT_FIRST: SourceClock = {
  newest: Number.NEGATIVE_INFINITY,
  behindMs: 0,
  run: 0,
  since: 0,
  isBack: false,
};

/** The clock of a source after one more live event of it. */
export function afterEvent(clock: SourceClock, time: number, at: number): SourceClock {
  const behindMs = at - time;
  const { newest, isBack, ...run } = clock;
  if (isBack && behindMs > run.behindMs / 2) {
    return { ...run, newest: Math.max(newest, at), isBack };
  }
  if (isBack || time > newest - BEFORE_MS) {
    return { ...AT_FIRST, newest: Math.max(newest, Math.min(time, at)) };
  }
  if (run.run === 0 || Math.abs(behindMs - run.behindMs) > JITTER_MS) {
    return { newest, behindMs, run: 1, since: at, isBack };
  }
  const length = run.run + 1;
  return { ...run, newest, run: length, isBack: length >= RUN && at - run.since >= RUN_MS };
}
