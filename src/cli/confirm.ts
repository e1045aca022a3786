import { createInterface } from "node:readline/promises";

/** Asks on the terminal; only a yes is one, and Ctrl-C or Ctrl-D is none. @param question as "redrive 3 dead letters?" */
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
