import { setTimeout as sleep } from "node:timers/promises";

/** How often a process that rests looks, ms, at what it looks at more often otherwise. */
export const REST_EVERY_MS = 20_000;

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

/** What polling needs of `Rest` (rest.ts). */
interface Resting {
  readonly isOn: boolean;
  onChange(listener: (isOn: boolean) => void): () => void;
}

export interface PollingOptions {
  readonly everyMs: number;
  /** While this process rests, the pause is `restMs`; once the rest has ended, `everyMs` at most. */
  readonly rest?: Resting;
  /** Default: REST_EVERY_MS */
  readonly restMs?: number;
  /** @param nextMs how long after this step the next one begins, at the latest. */
  readonly step: (signal: AbortSignal, nextMs: number) => Promise<void>;
  /** Is called with each error of a step. Without this function, errors of steps are not logged. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Runs a step again and again, `everyMs` after the last one ended, until it is closed. An error
 * does not end the polling. No two steps run at once.
 */
export function startPolling(options: PollingOptions): Looking {
  const { everyMs, rest, restMs = REST_EVERY_MS } = options;
  const stop = new AbortController();
  const { signal } = stop;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;

  const extraOfRest = (): number => (rest?.isOn === true ? Math.max(0, restMs - everyMs) : 0);

  async function step(extraMs: number): Promise<void> {
    const startedAt = performance.now();
    try {
      await options.step(signal, everyMs + extraMs);
      lookedAt = startedAt;
    } catch (error) {
      if (!signal.aborted) options.onError?.(error);
      throw error;
    }
  }

  const run = (extraMs: number): Promise<void> =>
    (running ??= step(extraMs).finally(() => (running = undefined)));

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      const extraMs = extraOfRest();
      await run(extraMs).catch(() => {});
      if (rest !== undefined && extraMs > 0) await restOf(rest, extraMs, signal);
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
      if (lookedAt < since) await run(0);
    },
    async close() {
      stop.abort();
      await looping;
    },
  };
}

/** Resolves after `ms`, or when the rest ends, or on abort. */
async function restOf(rest: Resting, ms: number, signal: AbortSignal): Promise<void> {
  if (!rest.isOn) return;
  const woken = new AbortController();
  const unlisten = rest.onChange(() => woken.abort());
  const ended = AbortSignal.any([signal, woken.signal]);
  await sleep(ms, undefined, { signal: ended }).catch(() => {});
  unlisten();
}
