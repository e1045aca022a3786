/** What a command writes to stdout: lines for people, or with --json a document. */
import { printableLines } from "../ops/printable.ts";
import { createInterface } from "node:readline/promises";

/** @param text one line or more, without external text that is not printable. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** @param indent by which the JSON takes several lines; else it is on one. */
export const printJson = (document: unknown, indent?: number): void =>
  print(printableLines(JSON.stringify(document, undefined, indent)));

export const printEither = (json: boolean | undefined, document: unknown, text: string): void =>
  json ? printJson(document) : print(text);

/**
 * Asks on the terminal. True only for "y" or "yes": any other answer, Ctrl-C and Ctrl-D mean no.
 * @param question as "redrive 3 dead letters?"
 */
export async function confirmed(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    if ((error as Error).name !== "AbortError") throw error;
    process.stderr.write("\n");
    return false;
  } finally {
    terminal.close();
  }
}
