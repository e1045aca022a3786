/** Draws what a terminal shows. Every run of text has its width, so that any monospace font fits. */
import type { IBuffer, IBufferCell } from "@xterm/headless";

const CELL = { width: 8.4, height: 19 };
const MARGIN = 18;
const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** A dark terminal, readable on light pages and on dark ones. */
const BACKGROUND = "#0d1117";
const BORDER = "#30363d";
const TEXT = "#e6edf3";
const COLOURS: readonly string[] =
  "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4".split(" ");

interface Run {
  readonly from: number;
  readonly style: string;
  text: string;
}

export function screenToSvg(buffer: IBuffer, cols: number): string {
  const lines = Array.from({ length: buffer.length }, (_, row) => runsOf(buffer, row, cols));
  while (lines.at(-1)?.every(({ text }) => text.trim() === "")) lines.pop();
  const width = Math.round(cols * CELL.width + 2 * MARGIN);
  const height = lines.length * CELL.height + 2 * MARGIN;
  const drawn = lines.flatMap((runs, row) => runs.map((run) => draw(run, row))).filter(Boolean);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="${FONT}" font-size="14" fill="${TEXT}">
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="${BACKGROUND}" stroke="${BORDER}"/>
${drawn.join("\n")}
</svg>
`;
}

/** The cells of a line, joined where they look the same. */
function runsOf(buffer: IBuffer, row: number, cols: number): Run[] {
  const line = buffer.getLine(row);
  const runs: Run[] = [];
  for (let col = 0; col < cols; col += 1) {
    const cell = line?.getCell(col);
    if (cell === undefined) continue;
    const style = styleOf(cell);
    const chars = cell.getChars() || " ";
    const last = runs.at(-1);
    if (last?.style === style && isBar(last.text) === isBar(chars)) last.text += chars;
    else runs.push({ from: col, style, text: chars });
  }
  return runs;
}

function styleOf(cell: IBufferCell): string {
  const colour = cell.isFgPalette() ? COLOURS[cell.getFgColor() % COLOURS.length] : undefined;
  return [
    colour && `fill="${colour}"`,
    cell.isBold() && `font-weight="bold"`,
    cell.isDim() && `opacity="0.7"`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** Bars are drawn as rectangles: fonts leave gaps between their characters. */
const isBar = (text: string): boolean => /^[█░]/.test(text);

function draw({ from, style, text }: Run, row: number): string {
  const trimmed = text.trimEnd();
  if (trimmed.trim() === "") return "";
  const x = MARGIN + from * CELL.width;
  const y = MARGIN + row * CELL.height;
  const width = (trimmed.length * CELL.width).toFixed(1);
  if (isBar(trimmed)) {
    const faint = trimmed.startsWith("░") ? ` fill-opacity="0.35"` : "";
    return `<rect x="${x.toFixed(1)}" y="${y + 3}" width="${width}" height="${CELL.height - 6}" ${style}${faint}/>`;
  }
  const indent = trimmed.length - trimmed.trimStart().length;
  const left = (x + indent * CELL.width).toFixed(1);
  const length = ((trimmed.length - indent) * CELL.width).toFixed(1);
  return `<text x="${left}" y="${y + 14}" textLength="${length}" lengthAdjust="spacingAndGlyphs" xml:space="preserve" ${style}>${escape(trimmed.trimStart())}</text>`;
}

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
