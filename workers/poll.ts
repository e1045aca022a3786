import { setTimeout as sleep } from "node:timers/promises";

export interface Polling {
  /** Aborts the step that is running, and resolves once it has ended. */
  close(): Promise<void>;
}

/**
 * Runs a step again and again, `everyMs` after the last one ended, until it is closed. An error is
 * reported and does not end the polling.
 */
export function startPolling(options: {
  readonly everyMs: number;
  readonly step: (signal: AbortSignal) => Promise<void>;
  readonly onError: (error: unknown) => void;
}): Polling {
  const stop = new AbortController();
  const { signal } = stop;

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      try {
        await options.step(signal);
      } catch (error) {
        if (!signal.aborted) options.onError(error);
      }
      await sleep(options.everyMs, undefined, { signal }).catch(() => {});
    }
  }

  const looping = loop();
  return {
    async close() {
      stop.abort();
      await looping;
    },
  };
}
