import { createInterface } from "node:readline/promises";

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
