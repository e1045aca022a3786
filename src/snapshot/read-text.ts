/** A snapshot's text, a piece at a time. */
import { UserError } from "../ops/user-error.ts";
import { readChunks } from "./read-chunks.ts";
import type { Encoding } from "./scan-file.ts";

/** What a program writes in the place of a character that it could not read. */
const REPLACEMENT = "\ufffd";

export const lostCharacter = (place: string): UserError =>
  new UserError(
    `${place} has the character U+FFFD: the export has lost characters by a wrong encoding; export it again as UTF-8`,
  );

/** @throws UserError when characters were lost before the file was written. */
export async function* readText(
  file: string,
  encoding: Encoding,
  onBytes: (bytes: number) => void = () => {},
): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding);
  let line = 1;
  for await (const chunk of readChunks(file)) {
    const text = decoder.decode(chunk, { stream: true });
    const lost = text.indexOf(REPLACEMENT);
    if (lost !== -1) {
      const at = line + linesIn(text.slice(0, lost));
      throw lostCharacter(`${file}, line ${at}`);
    }
    line += linesIn(text);
    onBytes(chunk.length);
    yield text;
  }
  yield decoder.decode();
}

function linesIn(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

/** The lines of a text, without their ends. */
export async function* linesOf(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of texts) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
  if (rest !== "") yield rest;
}
