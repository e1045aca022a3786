/** What of a plan counts as repaired. */
import { expect, test } from "vitest";
import { PlanCount } from "../../../src/whole/reconcile/plan-count.ts";
import type { OpenPlan, PlanEntry } from "../../../src/whole/reconcile/plan-file.ts";
import type { PlanProgress } from "../../../src/core/state/reconciliations.ts";

const PLAN = { file: "plan", entries: 4, header: { id: "a", requests: 4 } } as OpenPlan;

const entry = (n: number): PlanEntry => ({
  code: `p${n}`,
  kind: n === 0 ? "missing" : "different",
  position: n,
  fields: [],
  was: "x",
  wants: "y",
  requests: 1,
});

test("what was left out is no repaired difference, also after the plan was interrupted", () => {
  const count = new PlanCount(PLAN, undefined);
  count.carriedOut(entry(0), "changed");
  count.carriedOut(entry(1), "sent");
  count.carriedOut(entry(2), "changed");
  const first = count.note(PLAN, "running", [entry(1)]);
  expect(first).toMatchObject({
    done: 3,
    repaired: {},
    leftOut: { missing: 1, different: 1 },
  });
  expect(count.note(PLAN, "running", [entry(1)])).toMatchObject({ repaired: {}, leftOut: {} });

  const progress: PlanProgress = {
    state: "running",
    done: 3,
    at: 1,
    repaired: {},
    ...pick(first),
  };
  const later = new PlanCount(PLAN, progress);
  for (const n of [0, 1, 2]) later.skipped(entry(n));
  later.carriedOut(entry(3), "newer");
  expect(later.note(PLAN, "done", [])).toMatchObject({
    done: 4,
    repaired: { different: 2 },
    leftOut: {},
  });
});

const pick = ({ leftOut }: Pick<PlanProgress, "leftOut">) => (leftOut ? { leftOut } : {});
