/** A snapshot's text, a piece at a time. */
import { UserError } from "../../base/user-error.ts";
import { readChunks, type Encoding } from "./scan-file.ts";

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

/** A line, a document or an item of a list has no more characters: JSON of that size takes gigabytes. */
const MAX_CHARACTERS = 2 ** 28;

/** @throws UserError when a piece of this size is too large to be read as a whole. */
export function requireReadable(characters: number, place: string): void {
  if (characters <= MAX_CHARACTERS) return;
  throw new UserError(
    `${place} is longer than ${MAX_CHARACTERS} characters: put one record on each line, or all of them into one list`,
  );
}

/** The lines of a text, without their ends. @param file for messages */
export async function* linesOf(texts: AsyncIterable<string>, file: string): AsyncGenerator<string> {
  let number = 0;
  // What the line has so far: it is searched once, however long it is.
  let rest: string[] = [];
  let characters = 0;
  for await (const text of texts) {
    const pieces = text.split("\n");
    for (const [index, piece] of pieces.entries()) {
      rest.push(piece);
      characters += piece.length;
      requireReadable(characters, `${file}, line ${number + 1}`);
      if (index === pieces.length - 1) break;
      number += 1;
      yield withoutEnd(rest.join(""));
      rest = [];
      characters = 0;
    }
  }
  if (characters > 0) yield rest.join("");
}

const withoutEnd = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line);
