/** The shell blocks of README and docs, and the commands that bash finds in them. */
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export const PAGES = ["README.md", "CONTRIBUTING.md", ...globSync("docs/**/*.md", { cwd: ROOT })];

export interface Block {
  readonly page: string;
  /** Of its first command. */
  readonly line: number;
  /** The heading that it stands under. */
  readonly section: string;
  readonly text: string;
}

const FENCE = /^```(?:sh|console|bash|shell)\n([^]*?)^```/gm;

export function blocksOf(page: string): Block[] {
  const markdown = readFileSync(join(ROOT, page), "utf8");
  return [...markdown.matchAll(FENCE)].map(({ index, 1: text = "" }) => ({
    page,
    line: markdown.slice(0, index).split("\n").length + 1,
    section: [...markdown.slice(0, index).matchAll(/^#+ (.*)$/gm)].at(-1)?.[1] ?? "",
    text,
  }));
}

/** How the tests name a block. */
export const nameOf = ({ page, line }: Block): string => `${page}:${line}`;

/** @throws when it is no shell syntax. */
export function checkSyntax(text: string): void {
  const { status, stderr } = spawnSync("bash", ["-n"], { input: text, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}

/** Without programs on its PATH, bash hands every command to this function, which notes it. */
const NOTE_COMMANDS = `PATH=/nonexistent EDITOR=editor
command_not_found_handle() { printf '%s\\0' "$#" "$@" >&3; }
`;

/**
 * The commands of a block with their arguments, as bash itself understands them. Nothing is run or
 * written: builtins aside, every command is only noted, and output goes nowhere.
 */
export function commandsIn(text: string): string[][] {
  const harmless = text.replaceAll(/>>?\s*(?!&)[^\s;|)]+/g, ">/dev/null ");
  const { error, output } = spawnSync("bash", [], {
    input: `${NOTE_COMMANDS}${harmless}\nwait\n`,
    cwd: tmpdir(),
    stdio: ["pipe", "ignore", "ignore", "pipe"],
    encoding: "utf8",
    timeout: 10_000,
  });
  if (error !== undefined) throw error;
  const fields = (output[3] ?? "").split("\0");
  const commands: string[][] = [];
  for (let at = 0; at < fields.length - 1;) {
    const count = Number(fields[at]);
    commands.push(fields.slice(at + 1, at + 1 + count));
    at += 1 + count;
  }
  return commands;
}
