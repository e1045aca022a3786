/** What is said of a comparison of the past and its plan. */
import { expect, test } from "vitest";
import { endingOf, type PastComparison } from "../../../src/whole/reconcile/past-comparisons.ts";

const PLAN = { id: "a", entries: 10, requests: 12, host: "h" };
const BASE: PastComparison = {
  at: 1,
  tookMs: 1,
  source: "command",
  kind: "crm",
  asOf: 1,
  records: 20,
  equal: 10,
  drift: { missing: 10 },
  progress: undefined,
  isRunning: false,
  isSuperseded: false,
};
const progress = (state: "running" | "done" | "cancelled", done: number) => ({
  plan: PLAN,
  progress: { state, done, repaired: {}, at: 5 },
});

test.for([
  ["nothing differed", { drift: {} }, "good"],
  ["nothing that a plan could repair", { drift: { extra: 2 } }, "waits"],
  ["not carried out: 10 entries, 12 requests", { plan: PLAN }, "waits"],
  [
    "not carried out, and superseded by a newer comparison: 10 entries",
    { plan: PLAN, isSuperseded: true },
    "past",
  ],
  ["carried out: 10 of 10 entries", progress("done", 10), "good"],
  [
    "carried out: 10 of 10 entries, but 3 of them left out, because they had changed since the plan was made: compare again",
    {
      plan: PLAN,
      progress: { ...progress("done", 10).progress, leftOut: { missing: 1, different: 2 } },
    },
    "waits",
  ],
  ["cancelled after 4 of 10 entries", progress("cancelled", 4), "bad"],
  ["interrupted after 4 of 10 entries: run the same command again", progress("running", 4), "bad"],
  ["is being carried out: 4 of 10 entries", { ...progress("running", 4), isRunning: true }, "good"],
  [
    "stopped, and nothing was planned: it would terminate 30 of 40 active relations",
    { stop: "it would terminate 30 of 40 active relations" },
    "bad",
  ],
] satisfies [string, Partial<PastComparison>, string][])("%s", ([says, more, tone]) => {
  expect(endingOf({ ...BASE, ...more })).toMatchObject({ says, tone });
});
