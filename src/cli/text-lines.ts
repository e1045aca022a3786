/** Reads the lines of a text file that a user names. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { UserError } from "../ops/user-error.ts";

export interface TextFile {
  readonly name: string;
  readonly input: Readable;
  /** Undefined: not known. */
  readonly bytes: number | undefined;
}

/** What UTF-16 looks like when it is read as UTF-8. */
const UTF_16 = /^\ufffd\ufffd|\0/;

/** @param name `-` is standard input. @throws UserError when the file cannot be read. */
export async function openTextFile(name: string): Promise<TextFile> {
  if (name === "-") return { name: "standard input", input: process.stdin, bytes: undefined };
  const found = await stat(name).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${name} cannot be read (${error.code ?? ""})`);
  });
  if (found.isDirectory()) throw new UserError(`${name} is a folder: name a file`);
  return { name, input: createReadStream(name), bytes: found.size };
}

/** Without a byte order mark. @throws UserError when it is not UTF-8. */
export async function* linesOf({ name, input }: TextFile): AsyncGenerator<string> {
  let isFirst = true;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (isFirst && UTF_16.test(line)) {
      throw new UserError(`${name} is not UTF-8, but probably UTF-16: save it as UTF-8`);
    }
    yield isFirst ? line.replace(/^\ufeff/, "") : line;
    isFirst = false;
  }
}
