/** Log lines for people; loaded only when they are wanted. */
import { styleText } from "node:util";
import type { DestinationStream } from "pino";
import { linesOnStderr } from "./log.ts";

type Color = Parameters<typeof styleText>[0];

const COLORS: Readonly<Record<string, Color>> = {
  debug: "blue",
  info: "green",
  warn: "yellow",
  error: "red",
  fatal: "bgRed",
};

interface Line {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly pid?: number;
  readonly err?: { readonly type: string; readonly message: string; readonly stack: string[] };
}

export function textOnStderr(): DestinationStream {
  const stderr = linesOnStderr();
  return { write: (line) => stderr.write(textOf(line)) };
}

/** @param line as `createLog` writes it. */
export function textOf(line: string): string {
  const { level, time, msg, pid: _, err, ...fields } = JSON.parse(line) as Line;
  const at = new Date(time).toTimeString().slice(0, 8);
  const name = colored(COLORS[level] ?? "reset", level.toUpperCase());
  const text = `[${at}] ${name}: ${colored("cyan", msg)} ${colored("gray", JSON.stringify(fields))}\n`;
  if (err === undefined) return text;
  const { message, stack, type, ...more } = err;
  const cause = Object.keys(more).length > 0 ? ` ${JSON.stringify(more)}` : "";
  return `${text}    ${[`${type}: ${message}${cause}`, ...stack].join("\n      ")}\n`;
}

/** Without colours where stderr is no terminal, or NO_COLOR is set. */
const colored = (color: Color, text: string): string =>
  styleText(color, text, { stream: process.stderr });
