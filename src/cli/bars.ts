/** Progress on a terminal, on stderr; elsewhere only what keeps the work from going on. */
import { clearLine, cursorTo } from "node:readline";
import { duration } from "../status/clock-time.ts";

export interface Bar {
  update(value: number, total: number): void;
  /** Says beside the progress what the work waits for; "": it goes on. */
  note(text: string): void;
  /** The bar disappears. */
  stop(): void;
}

/** Of the bar itself, characters. */
const WIDTH = 40;

/** Time between two drawings, ms. */
const EVERY_MS = 100;

/** @param what is done, as `reading the snapshot`. */
export function showBar(what: string, unit: string): Bar {
  const { stderr } = process;
  if (!stderr.isTTY) {
    const note = (text: string) => void (text && stderr.write(`${what}: ${text}\n`));
    return { update() {}, note, stop() {} };
  }
  const startedAt = performance.now();
  let drawnAt = Number.NEGATIVE_INFINITY;
  let [done, most, note] = [0, 1, ""];
  function clear(): void {
    cursorTo(stderr, 0);
    clearLine(stderr, 0);
  }
  function draw(): void {
    drawnAt = performance.now();
    const share = done / most;
    const bar = "=".repeat(Math.round(share * WIDTH)).padEnd(WIDTH, "-");
    const left = done === 0 ? "?" : duration((drawnAt - startedAt) * (1 / share - 1));
    const text = `${what} [${bar}] ${Math.floor(share * 100)}% · ${done} of ${most} ${unit} · ${left} left${note}`;
    clear();
    stderr.write(text.slice(0, stderr.columns - 1));
  }
  return {
    update(value, total) {
      [done, most] = [value, Math.max(value, total, 1)];
      if (performance.now() - drawnAt >= EVERY_MS) draw();
    },
    note(text) {
      note = text && ` · ${text}`;
      draw();
    },
    stop() {
      if (Number.isFinite(drawnAt)) clear();
    },
  };
}
