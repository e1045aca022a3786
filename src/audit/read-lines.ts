import { createReadStream } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { UserError } from "../ops/user-error.ts";

/** No line of an audit trail is so long, bytes. A file with a hole in it must not fill the memory. */
const MOST_LINE = 2 ** 20;

/**
 * The lines of a file, of a `.gz` file, or of standard input (`-`); their bytes in strings (latin1), so
 * that not one of them is changed before it is checked. What is too long for a line comes in parts.
 * @throws UserError that names the file.
 */
export async function* readLines(file: string): AsyncGenerator<string> {
  const raw: Readable = file === "-" ? process.stdin : createReadStream(file);
  const text = file.endsWith(".gz") ? raw.pipe(createGunzip()) : raw;
  raw.on("error", (error) => text.destroy(error));
  text.setEncoding("latin1");
  try {
    let rest = "";
    for await (const chunk of text as AsyncIterable<string>) {
      rest += chunk;
      if (chunk.includes("\n")) {
        const lines = rest.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) yield line.replace(/\r$/, "");
      }
      if (rest.length <= MOST_LINE) continue;
      yield rest;
      rest = "";
    }
    if (rest !== "") yield rest;
  } catch (error) {
    throw new UserError(`${file} cannot be read: ${(error as Error).message}`);
  } finally {
    raw.destroy();
  }
}

const CHUNK = 256 * 1024;
const LINE_END = 10;

/**
 * Lines before a byte of a file with their line ends, the last one first; `begin` is where a line begins. What is too
 * long for one comes in parts.
 */
export async function* linesBackwards(
  file: FileHandle,
  before: number,
): AsyncGenerator<{ readonly text: string; readonly begin: number }> {
  let begin = before;
  let rest = Buffer.alloc(0);
  while (begin > 0) {
    const length = Math.min(CHUNK, begin);
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await file.read(bytes, 0, length, begin - length);
    begin -= length;
    rest = Buffer.concat([bytes.subarray(0, bytesRead), rest]);
    for (let end = rest.length; ;) {
      const lineEnd = end < 2 ? -1 : rest.lastIndexOf(LINE_END, end - 2);
      if (lineEnd < 0 && begin > 0) {
        rest = rest.subarray(0, end);
        if (rest.length <= MOST_LINE) break;
        yield { text: rest.toString("latin1"), begin };
        rest = Buffer.alloc(0);
        break;
      }
      yield { text: rest.toString("latin1", lineEnd + 1, end), begin: begin + lineEnd + 1 };
      if (lineEnd < 0) return;
      end = lineEnd + 1;
    }
  }
}

/** The last complete line, as bytes in a string (latin1), and what stands after it: a line that a crash has torn. */
export async function readEnd(file: FileHandle, size: number) {
  let torn = "";
  for await (const { text } of linesBackwards(file, size)) {
    if (text.endsWith("\n")) return { line: text.slice(0, -1), torn };
    torn = text + torn;
  }
  return { line: undefined, torn };
}
