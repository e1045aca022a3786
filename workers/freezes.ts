/** Notices that this process did not run: it was stopped, or its event loop was blocked. */

const TICK_MS = 250;

/** A shorter one has no effect that anybody would look for, ms. */
const FROZEN_MS = 3000;

/** @param onFreeze called after each one, with its length in ms. @returns what ends the watch. */
export function watchFreezes(onFreeze: (ms: number) => void): () => void {
  // It goes on while the process is stopped; the time of day may be set.
  let ranAt = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const frozenMs = now - ranAt - TICK_MS;
    ranAt = now;
    if (frozenMs > FROZEN_MS) onFreeze(frozenMs);
  }, TICK_MS).unref();
  return () => clearInterval(timer);
}
