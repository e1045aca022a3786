import { expect, it } from "vitest";
import { runScenario, type Scenario } from "./run-scenario.ts";

/** A short selection; `npm run chaos` runs every fault, alone and combined, for longer. */
const SELECTION: Pick<Scenario, "faults" | "processes">[] = [
  {
    faults: ["kill -9 of any process", "Redis killed", "reset after the commit"],
    processes: "split",
  },
  {
    faults: [
      "requests that arrive late",
      "502, HTML, after",
      "truncated responses",
      "storm of 429, date",
      "401 and back",
      "connections refused",
    ],
    processes: "one",
  },
  {
    faults: ["frozen for longer than the lock", "no response after the commit"],
    processes: "split",
  },
];

/** CHAOS_SEED repeats a run. */
const seed = Number(process.env["CHAOS_SEED"] ?? Date.now() % 1_000_000);

it.each(SELECTION)("nothing lost, nothing stale: $faults", async (chosen) => {
  const load = { records: 100, events: 1000 };
  const result = await runScenario({ ...chosen, load, sendingMs: 6000 }, seed);
  expect(result).toMatchObject({ seed, lost: [], stale: 0, overlaps: 0, own429: 0 });
  // Each failed request may cost one more request.
  expect(result.requests / result.netChanges).toBeLessThan(2);
});
