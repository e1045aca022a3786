import { createInterface } from "node:readline/promises";
import { counted } from "../../ops/counted.ts";
import type { OpenPlan } from "../../reconcile/plan-file.ts";

/** Asks on the terminal whether the plan may be carried out. */
export async function confirmed({ entries }: OpenPlan): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`carry out ${counted(entries, "change")}? [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
