/** Progress on stderr: a table redrawn in place on a terminal, otherwise a line every 5 s. */
import { clearScreenDown, moveCursor } from "node:readline";
import { stripVTControlCharacters, styleText } from "node:util";
import type { Figures } from "./figures.ts";
import { renderLine, renderTable } from "./table.ts";
import type { Paint } from "./table.ts";

const LINE_EVERY_MS = 5000;
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";

/** Colours if the stream supports them; NO_COLOR turns them off. */
export function painter(stream: NodeJS.WriteStream): Paint {
  return (style, text) => styleText(style, text, { stream });
}

export class Screen {
  readonly #stream: NodeJS.WriteStream;
  readonly #paint: Paint;
  #drawn = 0;
  #lineAt = Number.NEGATIVE_INFINITY;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    this.#paint = painter(stream);
  }

  show(figures: Figures): void {
    if (this.#stream.isTTY) return this.#draw(renderTable(figures, this.#paint));
    if (performance.now() - this.#lineAt < LINE_EVERY_MS) return;
    this.#lineAt = performance.now();
    this.#stream.write(`${renderLine(figures)}\n`);
  }

  /** Prints a message, which stays above the table. */
  say(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
  }

  /** Stops redrawing; the last table stays visible. */
  end(): void {
    if (this.#drawn > 0) this.#stream.write(SHOW_CURSOR);
    this.#drawn = 0;
  }

  #draw(lines: readonly string[]): void {
    this.#erase();
    const width = this.#stream.columns;
    // A table taller than the terminal would scroll and could not be erased.
    const shown = lines.slice(0, Math.max(1, this.#stream.rows - 1));
    this.#stream.write(HIDE_CURSOR + shown.map((line) => `${cut(line, width)}\n`).join(""));
    this.#drawn = shown.length;
  }

  #erase(): void {
    if (this.#drawn === 0) return;
    moveCursor(this.#stream, 0, -this.#drawn);
    clearScreenDown(this.#stream);
    this.#drawn = 0;
  }
}

/** Cuts a line that would wrap into two; a cut line loses its colours. */
function cut(line: string, width: number): string {
  const plain = stripVTControlCharacters(line);
  return plain.length < width ? line : plain.slice(0, Math.max(0, width - 1));
}
