/** Finds lines of an audit trail on this machine: the newest first for a page, the oldest first for an export. */
import { open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { parseLine, type Line, linesBackwards, readLines } from "./line.ts";

export interface AuditFilter {
  /** Part of the name of who acted, asked or approved; in any case of letters. */
  readonly person?: string | undefined;
  /** One of these relations; empty: none fits. */
  readonly crmCodes?: readonly string[] | undefined;
  /** The outcome of a change, the name of an act, or the part of it before its dot. */
  readonly what?: string | undefined;
  /** From when, and before when, ms. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Where a search goes on, further back: in this file, before this byte. */
export interface Place {
  readonly file: string;
  readonly end: number;
}

export interface FoundLines {
  /** The newest first. */
  readonly lines: readonly Line[];
  /** Undefined: all files were searched to their beginning. */
  readonly next: Place | undefined;
  /** When the oldest line was written that was looked at, ISO 8601. */
  readonly searchedTo: string | undefined;
}

/** Bytes that are read for one page, at most. */
const MOST_BYTES = 32 * 1024 * 1024;

/** Clocks of machines are set back, so lines are not quite in the order of their times, ms. */
const DISORDER_MS = 3_600_000;

/** The file and those that it was rotated to, the newest first. */
export async function auditFiles(path: string): Promise<string[]> {
  const name = basename(path);
  const names = await readdir(dirname(path)).catch(onlyMissing([]));
  const own = names.filter(
    (one) => one === name || (/^[.-][\w.-]+$/.test(one.slice(name.length)) && one.startsWith(name)),
  );
  const kept = own.filter((one) => !/\.state(?:-\w+)?$/.test(one));
  const found = await Promise.all(
    kept.map(async (one) => {
      const file = join(dirname(path), one);
      return { file, at: await stat(file).catch(onlyMissing(undefined)) };
    }),
  );
  const files = found.filter(({ at }) => at?.isFile() === true);
  const ageOf = ({ file, at }: (typeof files)[number]) =>
    file === path ? Number.POSITIVE_INFINITY : (at?.mtimeMs ?? 0);
  return files.sort((a, b) => ageOf(b) - ageOf(a)).map(({ file }) => file);
}

/**
 * A page of lines, the newest first. Compressed files are left out: they can only be read from their beginning.
 * @param from where the page before ended.
 */
export async function findLines(
  files: readonly string[],
  filter: AuditFilter,
  { most, from }: { readonly most: number; readonly from?: Place | undefined },
): Promise<FoundLines> {
  const fits = fitsOf(filter);
  const plain = files.filter((file) => !file.endsWith(".gz"));
  const first = from === undefined ? 0 : Math.max(0, plain.indexOf(from.file));
  const lines: Line[] = [];
  let left = MOST_BYTES;
  let searchedTo: string | undefined;
  for (const file of plain.slice(first)) {
    await using handle = await open(file, "r").catch(onlyMissing(undefined));
    if (handle === undefined) continue;
    const { size } = await handle.stat();
    const end = file === from?.file ? Math.min(from.end, size) : size;
    for await (const { text, begin } of linesBackwards(handle, end)) {
      left -= text.length;
      const line = parseLine(text.trimEnd());
      const at = line === undefined ? undefined : atOf(line);
      searchedTo = at ?? searchedTo;
      if (at !== undefined && Date.parse(at) < (filter.from ?? 0) - DISORDER_MS)
        return { lines, next: undefined, searchedTo };
      if (line !== undefined && fits(line)) lines.push(line);
      if (lines.length >= most || left <= 0)
        return { lines, next: { file, end: begin }, searchedTo };
    }
  }
  return { lines, next: undefined, searchedTo };
}

/** All lines that fit, the oldest first, as they stand in their files. */
export async function* allLines(
  files: readonly string[],
  filter: AuditFilter,
): AsyncGenerator<{ readonly text: string; readonly line: Line }> {
  const fits = fitsOf(filter);
  for (const file of files.toReversed()) {
    for await (const text of readLines(file)) {
      const line = parseLine(text);
      if (line !== undefined && fits(line)) yield { text, line };
    }
  }
}

export const atOf = ({ fields: { at } }: Line): string | undefined =>
  typeof at === "string" && !Number.isNaN(Date.parse(at)) ? at : undefined;

function fitsOf({ person, crmCodes, what, from, to }: AuditFilter): (line: Line) => boolean {
  const part = person?.toLowerCase();
  const isBy = (name: unknown) =>
    textOf(name)
      .toLowerCase()
      .includes(part ?? "");
  return (line) => {
    const { act, approvedBy, by, crmCode, crmCodes: listed, outcome } = line.fields;
    const at = Date.parse(atOf(line) ?? "");
    return (
      (part === undefined || isBy(by) || isBy(approvedBy)) &&
      (crmCodes === undefined ||
        [crmCode, listed].flat().some((one) => crmCodes.includes(textOf(one)))) &&
      (what === undefined ||
        what === outcome ||
        what === act ||
        textOf(act).startsWith(`${what}.`)) &&
      // A line without a time is about its file: it belongs to every time.
      !(at < (from ?? Number.NEGATIVE_INFINITY) || at >= (to ?? Number.POSITIVE_INFINITY))
    );
  };
}

/** A field as text; "" for what is none. */
export const textOf = (field: unknown): string => (typeof field === "string" ? field : "");

export const onlyMissing =
  <T>(otherwise: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  };
