import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/**
 * The lines of a file, of a `.gz` file, or of standard input (`-`); their bytes in strings (latin1), so
 * that not one of them is changed before it is checked.
 */
export async function* readLines(file: string): AsyncGenerator<string> {
  const raw: Readable = file === "-" ? process.stdin : createReadStream(file);
  const text = file.endsWith(".gz") ? raw.pipe(createGunzip()) : raw;
  raw.on("error", (error) => text.destroy(error));
  text.setEncoding("latin1");
  yield* createInterface({ input: text, crlfDelay: Number.POSITIVE_INFINITY });
}
