/** How exact a limit is, ms. */
const TICK_MS = 50;

/**
 * A time limit that counts only the time in which this process runs. After a SIGSTOP, or when the
 * machine slept, the clock is hours ahead, although no mapping was slow.
 * @param late is called each time that the limit is reached.
 * @returns ends it
 */
export function startAwakeTimer(late: () => void, limitMs: number): () => void {
  let awakeMs = 0;
  // However long the process was stopped, only one tick is due when it continues.
  const ticking = setInterval(() => {
    awakeMs += TICK_MS;
    if (awakeMs < limitMs) return;
    awakeMs = 0;
    late();
  }, TICK_MS);
  return () => clearInterval(ticking);
}
