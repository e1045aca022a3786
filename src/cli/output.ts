/** What a command writes to stdout: lines for people, or with --json a document. */
import { printableLines } from "../base/printable.ts";
import { createInterface } from "node:readline/promises";
import { clearLine, cursorTo } from "node:readline";
import { duration } from "../operate/status/clock-time.ts";

/** @param text one line or more, without external text that is not printable. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** Characters on a line of the terminal; undefined: a file or a program reads. */
export const terminalColumns = (): number | undefined =>
  process.stdout.isTTY ? process.stdout.columns : undefined;

/** @param indent by which the JSON takes several lines; else it is on one. */
export const printJson = (document: unknown, indent?: number): void =>
  print(printableLines(JSON.stringify(document, undefined, indent)));

export const printEither = (json: boolean | undefined, document: unknown, text: string): void =>
  json ? printJson(document) : print(text);

/**
 * Asks on the terminal. True only for "y" or "yes": any other answer, Ctrl-C and Ctrl-D mean no.
 * @param question as "redrive 3 dead letters?"
 */
export async function confirmed(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    if ((error as Error).name !== "AbortError") throw error;
    process.stderr.write("\n");
    return false;
  } finally {
    terminal.close();
  }
}

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
