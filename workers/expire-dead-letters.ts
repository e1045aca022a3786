/** Deletes the dead letters that were kept for DEAD_LETTER_DAYS. Several processes may do it at once. */
import type { Runtime } from "./runtime.ts";

/** Batches in one sweep; the next one, 10 s later, continues. */
const MOST_BATCHES = 50;

export async function expireDeadLetters(runtime: Runtime): Promise<void> {
  const { deadLetterExpiry, log, metrics } = runtime;
  for (let batch = 0; batch < MOST_BATCHES; batch += 1) {
    const { expired, more } = await deadLetterExpiry.expire();
    if (expired > 0) {
      metrics.deadLettersExpired.inc(expired);
      log.warn({ records: expired }, "dead_letter.expired");
    }
    if (!more) return;
  }
}
