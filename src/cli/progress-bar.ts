/** A progress bar on stderr that disappears when it stops. */
import progress, { SingleBar } from "cli-progress";

/** @param format see the library; it has `{eta_formatted}` for how long the rest takes. */
export function progressBar(format: string): SingleBar {
  return new SingleBar({
    format,
    stream: process.stderr,
    clearOnComplete: true,
    // The library writes the words NULL and INF for a time it does not know, cut to two letters.
    formatTime: (seconds, options, roundTo) =>
      Number.isFinite(seconds) ? progress.Format.TimeFormat(seconds, options, roundTo) : "?",
  });
}
