import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { UserError } from "../ops/user-error.ts";

/** No line of an audit trail is so long, bytes. A file with a hole in it must not fill the memory. */
export const MOST_LINE = 2 ** 20;

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
