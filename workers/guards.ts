/**
 * What a process must not do without: a look at the age of the state and at its version. Both look once a
 * second; a process that stood still looks again before it stages or sends anything.
 */
import type { Looking, Polling } from "./poll.ts";

/** Each guard must have looked within this time, ms. */
const CHECKED_FOR_MS = 3000;

export class Guards {
  readonly #guards = new Set<Looking>();

  add(looking: Looking): Polling {
    this.#guards.add(looking);
    return looking;
  }

  /**
   * Resolves once every guard has looked lately.
   * @param withinMs for how long a look counts, ms; 0: each looks now.
   * @throws when one of them cannot look; nothing may be staged or sent then.
   */
  async checked(withinMs = CHECKED_FOR_MS): Promise<void> {
    const late = [...this.#guards].filter((guard) => !guard.hasLooked(withinMs));
    if (late.length > 0) await Promise.all(late.map((guard) => guard.look(withinMs)));
  }
}
