/** The scenarios: single faults, random combinations, and a large one. */
import type { Random } from "../../src/demo/random.ts";
import type { Scenario } from "./run-scenario.ts";
import { FAULTS, type FaultName } from "./faults.ts";

export const FAULT_NAMES = Object.keys(FAULTS) as FaultName[];

const USUAL = { load: { records: 200, events: 3000 }, sendingMs: 12_000 } as const;

/** One fault alone, with several processes of different roles. */
export const alone = (fault: FaultName): Scenario => ({
  ...USUAL,
  faults: [fault],
  processes: "split",
});

/** One to four faults at once. */
export function combined(random: Random): Scenario {
  const faults = random.some(FAULT_NAMES, 4);
  return { ...USUAL, faults, processes: random.pick(["one", "split"]) };
}

/** Many events for two minutes, while processes and Redis are killed every few seconds. */
export const LARGE: Scenario = {
  load: { records: 2000, events: 100_000 },
  sendingMs: 120_000,
  faults: ["kill -9 of any process", "Redis killed", "reset after the commit"],
  processes: "split",
};
