/** Finds since when something goes wrong more often than it may. Pure. */

/** How many of all were bad within one slice of time. */
export interface Tally {
  /** When it began, ms. */
  readonly since: number;
  readonly bad: number;
  readonly all: number;
}

/**
 * The stretch up to now in which there are most bad ones beyond their tolerated share: what was
 * good before does not hide it, and a few bad ones before do not begin it too early.
 * @param tallies oldest first.
 */
export function worstStretch(tallies: readonly Tally[], share: number): Tally | undefined {
  let [bad, all, most] = [0, 0, 0];
  let worst: Tally | undefined;
  for (const tally of tallies.toReversed()) {
    bad += tally.bad;
    all += tally.all;
    const excess = bad - share * all;
    if (excess <= most) continue;
    most = excess;
    worst = { since: tally.since, bad, all };
  }
  return worst;
}
