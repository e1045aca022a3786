import { expect, it } from "vitest";
import { play, type Scenario } from "./run-scenario.ts";

/** A short selection; `npm run chaos` plays every trouble, alone and together, for long. */
const SELECTION: Pick<Scenario, "troubles" | "processes">[] = [
  {
    troubles: ["kill -9 of any process", "Redis killed", "reset after the commit"],
    processes: "split",
  },
  {
    troubles: [
      ...(["requests that arrive late", "502, HTML, after", "truncated answers"] as const),
      ...(["storm of 429, date", "401 and back", "connections refused"] as const),
    ],
    processes: "one",
  },
  { troubles: ["asleep for longer than the lock", "silence after the commit"], processes: "split" },
];

/** CHAOS_SEED plays the same once more. */
const seed = Number(process.env["CHAOS_SEED"] ?? Date.now() % 1_000_000);

it.each(SELECTION)("nothing lost, nothing stale: $troubles", async (chosen) => {
  const load = { records: 100, events: 1000 };
  const verdict = await play({ ...chosen, load, sendingMs: 6000 }, seed);
  expect(verdict).toMatchObject({ seed, lost: [], stale: 0, overlaps: 0, own429: 0 });
  // Each failure may cost the change another request, and no more than that.
  expect(verdict.requests / verdict.netChanges).toBeLessThan(2);
});
