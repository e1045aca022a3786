/** The named scenarios, and how more are drawn. */
import type { Random } from "../../src/demo/random.ts";
import type { Scenario } from "./run-scenario.ts";
import { TROUBLES, type TroubleName } from "./faults.ts";

export const TROUBLE_NAMES = Object.keys(TROUBLES) as TroubleName[];

const USUAL = { load: { records: 200, events: 3000 }, sendingMs: 12_000 } as const;

/** Every trouble alone, each with many small processes. */
export const alone = (trouble: TroubleName): Scenario => ({
  ...USUAL,
  troubles: [trouble],
  processes: "split",
});

/** Two to four troubles at once. */
export function combined(random: Random): Scenario {
  const troubles = random.some(TROUBLE_NAMES, 4);
  return { ...USUAL, troubles, processes: random.pick(["one", "split"]) };
}

/** Much, for long, while processes are killed every few seconds, Redis among them. */
export const LARGE: Scenario = {
  load: { records: 2000, events: 100_000 },
  sendingMs: 120_000,
  troubles: ["kill -9 of any process", "Redis killed", "reset after the commit"],
  processes: "split",
};
