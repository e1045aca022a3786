/** Progress on stderr: a table redrawn in place on a terminal, plain lines now and then elsewhere. */
import { clearScreenDown, moveCursor } from "node:readline";
import { stripVTControlCharacters, styleText } from "node:util";
import type { Figures } from "./figures.ts";
import { renderLine, renderTable } from "./table.ts";
import type { Paint } from "./table.ts";

const LINE_EVERY_MS = 5000;
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";

/** Colours as far as the stream takes them; NO_COLOR turns them off. */
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

  /** Something that happened; it stays above the table. */
  say(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
  }

  /** Leaves the table as it stands. */
  end(): void {
    if (this.#drawn > 0) this.#stream.write(SHOW_CURSOR);
    this.#drawn = 0;
  }

  #draw(lines: readonly string[]): void {
    this.#erase();
    const width = this.#stream.columns;
    // Too tall a table would scroll, and could not be erased again.
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

/** A line that wraps would take two rows; one that is too long goes without colours. */
function cut(line: string, width: number): string {
  const plain = stripVTControlCharacters(line);
  return plain.length < width ? line : plain.slice(0, Math.max(0, width - 1));
}
