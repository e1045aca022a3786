/** What a command writes to stdout: lines for people, or with --json a document. */
import { printableLines } from "../ops/printable.ts";

/** @param text one line or more, without external text that is not printable. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** @param indent by which the JSON takes several lines; else it is on one. */
export const printJson = (document: unknown, indent?: number): void =>
  print(printableLines(JSON.stringify(document, undefined, indent)));

export const printEither = (json: boolean | undefined, document: unknown, text: string): void =>
  json ? printJson(document) : print(text);
