/** Notices that this process did not run: it was stopped, or its event loop was blocked. */

const TICK_MS = 250;

/** Shorter freezes are not reported: they have no effect, ms. */
const FROZEN_MS = 3000;

/** @param onFreeze called after each one, with its length in ms. @returns what ends the watch. */
export function watchFreezes(onFreeze: (ms: number) => void): () => void {
  // performance.now() runs on while the process is stopped. Setting the time of day does not change it.
  let ranAt = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const frozenMs = now - ranAt - TICK_MS;
    ranAt = now;
    if (frozenMs > FROZEN_MS) onFreeze(frozenMs);
  }, TICK_MS).unref();
  return () => clearInterval(timer);
}
