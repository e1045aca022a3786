import { setTimeout as sleep } from "node:timers/promises";

export interface Polling {
  /** Aborts the step that is running, and resolves once it has ended. */
  close(): Promise<void>;
}

export interface Looking extends Polling {
  /** Whether a step that has ended well began within this time, ms. */
  hasLooked(withinMs: number): boolean;
  /** Runs the step now, unless one began within this time, ms. @throws what the step throws. */
  look(withinMs: number): Promise<void>;
}

export interface PollingOptions {
  readonly everyMs: number;
  readonly step: (signal: AbortSignal) => Promise<void>;
  /** Is called with each error of a step. Without this function, errors of steps are not logged. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Runs a step again and again, `everyMs` after the last one ended, until it is closed. An error
 * does not end the polling. No two steps run at once.
 */
export function startPolling(options: PollingOptions): Looking {
  const { everyMs } = options;
  const stop = new AbortController();
  const { signal } = stop;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;

  async function step(): Promise<void> {
    const startedAt = performance.now();
    try {
      await options.step(signal);
      lookedAt = startedAt;
    } catch (error) {
      if (!signal.aborted) options.onError?.(error);
      throw error;
    }
  }

  const run = (): Promise<void> => (running ??= step().finally(() => (running = undefined)));

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      await run().catch(() => {});
      await sleep(everyMs, undefined, { signal }).catch(() => {});
    }
  }

  const hasLooked = (withinMs: number): boolean => performance.now() - lookedAt <= withinMs;
  const looping = loop();
  return {
    hasLooked,
    async look(withinMs) {
      const since = performance.now() - withinMs;
      if (lookedAt >= since) return;
      // The step that runs may have begun too early to count.
      await running;
      if (lookedAt < since) await run();
    },
    async close() {
      stop.abort();
      await looping;
    },
  };
}

/** Each guard must have looked within this time, ms. */
const CHECKED_FOR_MS = 3000;

/**
 * What a process must not do without: a look at the age of the state and at its version. Both look once a
 * second; a process that stood still looks again before it stages or sends anything.
 */
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
