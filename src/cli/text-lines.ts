/** Reads the lines of a text file that a user names. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { UserError } from "../base/user-error.ts";
import { linesOfUtf8 } from "../base/utf8-text.ts";

export interface TextFile {
  readonly name: string;
  readonly input: Readable;
  /** Undefined: not known. */
  readonly bytes: number | undefined;
}

/** @param name `-` is standard input. @throws UserError when the file cannot be read. */
export async function openTextFile(name: string): Promise<TextFile> {
  if (name === "-") return { name: "standard input", input: process.stdin, bytes: undefined };
  const found = await stat(name).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${name} cannot be read (${error.code ?? ""})`);
  });
  if (found.isDirectory()) throw new UserError(`${name} is a folder: name a file`);
  return { name, input: createReadStream(name), bytes: found.size };
}

/** The lines of the file, without a byte order mark. @throws UserError when a line is not UTF-8. */
export const linesOf = ({ name, input }: TextFile): AsyncGenerator<string> =>
  linesOfUtf8(input, name);
