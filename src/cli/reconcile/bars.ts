/** Progress on a terminal; nothing elsewhere. */
import { SingleBar } from "cli-progress";

export interface Bar {
  update(value: number, total: number): void;
  stop(): void;
}

/** @param what is counted, as `reading the snapshot`. */
export function showBar(what: string, unit: string): Bar {
  if (!process.stderr.isTTY) return { update() {}, stop() {} };
  const bar = new SingleBar({
    format: `${what} [{bar}] {percentage}% · {value} of {total} ${unit} · {eta_formatted} left`,
    stream: process.stderr,
    clearOnComplete: true,
  });
  let isStarted = false;
  return {
    update(value, total) {
      const most = Math.max(value, total);
      if (!isStarted) bar.start(most, value);
      isStarted = true;
      bar.setTotal(most);
      bar.update(value);
    },
    stop() {
      if (isStarted) bar.stop();
    },
  };
}
