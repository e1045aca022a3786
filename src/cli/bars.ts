/** Progress on a terminal, on stderr; elsewhere only what keeps the work from going on. */
import progress, { SingleBar } from "cli-progress";

export interface Bar {
  update(value: number, total: number): void;
  /** Says beside the progress what the work waits for; "": it goes on. */
  note(text: string): void;
  /** The bar disappears. */
  stop(): void;
}

/** @param what is done, as `reading the snapshot`. */
export function showBar(what: string, unit: string): Bar {
  if (!process.stderr.isTTY) {
    const note = (text: string) => void (text && process.stderr.write(`${what}: ${text}\n`));
    return { update() {}, note, stop() {} };
  }
  const bar = new SingleBar({
    format: `${what} [{bar}] {percentage}% · {value} of {total} ${unit} · {eta_formatted} left{note}`,
    stream: process.stderr,
    clearOnComplete: true,
    // The library writes the words NULL and INF for a time it does not know, cut to two letters.
    formatTime: (seconds, options, roundTo) =>
      Number.isFinite(seconds) ? progress.Format.TimeFormat(seconds, options, roundTo) : "?",
  });
  let isStarted = false;
  let note = "";
  const start = (total: number, value: number) => {
    if (!isStarted) bar.start(total, value, { note });
    isStarted = true;
  };
  return {
    update(value, total) {
      const most = Math.max(value, total);
      start(most, value);
      bar.setTotal(most);
      bar.update(value, { note });
    },
    note(text) {
      note = text && ` · ${text}`;
      start(1, 0);
      bar.update({ note });
    },
    stop() {
      if (isStarted) bar.stop();
    },
  };
}
