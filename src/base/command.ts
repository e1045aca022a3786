/** The one place that writes commands for people: what is printed can be pasted into any POSIX shell. */
import { fileURLToPath } from "node:url";
import { isPrintable } from "./printable.ts";
import { ROOT } from "./version.ts";

type Word = string | number;

/**
 * A command of crmsync, as it is called where this process runs: crmsync`why ${crmCode}`. What is inserted
 * is one word each, or several as an array; nothing when undefined.
 */
export const crmsync = (text: TemplateStringsArray, ...words: Inserted[]): string =>
  `${PROGRAM} ${shell(text, ...words)}`;

type Inserted = Word | readonly Word[] | undefined;

/** Another program's command. A single word that looks like an option stands at the end, after `--`. */
export function shell(
  [first = "", ...texts]: TemplateStringsArray,
  ...inserted: Inserted[]
): string {
  const last: string[] = [];
  const line = texts.reduce((before, text, n) => {
    const one = inserted[n] ?? [];
    const isName = typeof one === "string" && one.startsWith("-");
    if (isName) last.push(shellWord(one));
    const words = isName ? [] : [one].flat().map(shellWord);
    return (words.length === 0 ? before.trimEnd() : before + words.join(" ")) + text;
  }, first);
  return last.length === 0 ? line : `${line} -- ${last.join(" ")}`;
}

/** One word, whatever is in it; of line ends at its end, the shell takes none. */
export function shellWord(word: Word): string {
  const text = String(word);
  if (/^[\w%+:,./@-][\w%+=:,./@-]*$/.test(text)) return text;
  if (isPrintable(text)) return `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const bytes = [...Buffer.from(text)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`);
  return `"$(printf '${bytes.join("")}')"`;
}

const MAIN = fileURLToPath(new URL("../cli/main.ts", import.meta.url));

/** Installed, or in a checkout: there npm finds its own Node. */
export const PROGRAM: string =
  process.argv[1] !== MAIN
    ? "crmsync"
    : process.cwd() === fileURLToPath(ROOT).replace(/\/$/, "")
      ? "npm run crmsync --"
      : shell`${process.execPath} ${MAIN}`;

/** A command with the rest of its sentence, or another word. */
const PIECE = new RegExp(
  String.raw` *(?:\(?${PROGRAM.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)}(?:(?<![).,;:]) +(?:'[^']*'|"[^"]*"|[^ ])+)*|[^ ]+)`,
  "g",
);

/**
 * Breaks a line between its words, so that a terminal breaks none of them. Nothing is put into a command: a terminal
 * that breaks it copies it as one line.
 * @param columns so many characters stand on one line; undefined: all.
 * @param indent blanks before each further line.
 */
export function brokenAt(text: string, columns: number | undefined, indent: number): string[] {
  if (columns === undefined) return [text];
  const before = " ".repeat(Math.min(indent, columns >> 1));
  const lines: string[] = [];
  let line = "";
  for (const [piece] of text.matchAll(PIECE)) {
    if (line !== "" && line.length + piece.length > columns) {
      lines.push(line);
      line = before + piece.trimStart();
    } else line += piece;
  }
  return [...lines, line];
}
