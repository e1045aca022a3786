/** What reconciliations leave: relations that differ, and scheduled runs without a good end. */
import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import type { Reconciliation } from "../../../src/core/state/reconciliations.ts";
import { reconcileFindings } from "../../../src/operate/status/change-findings.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";

function findingsOf(drift: Partial<Reconciliation["drift"]>, isFeeding = false) {
  const at = Date.parse("2026-11-22T10:41:00Z");
  const all = { ...NO_DRIFT, ...drift };
  const reconciliation = { at, tookMs: 1, records: 9, equal: 1, name: "crm.csv", drift: all };
  return reconcileFindings({ ...IDLE, isFeeding, folder: undefined, reconciliation });
}

it("counts what a plan repairs, and nothing else", () => {
  expect(findingsOf({ missing: 2, ended: 1, extra: 50, invalid: 7 })).toEqual([
    {
      severity: "warning",
      effect: "figures",
      says: "3 relations differ from the CRM, as the comparison of crm.csv, 2026-11-22T10:41:00Z found: carry its plan out, or compare again (crmsync reconcile).",
      runbook: "docs/runbook.md#crmsyncdrift",
    },
  ]);
  expect(findingsOf({ extra: 50, invalid: 7, unmappable: 1, duplicate: 1 })).toEqual([]);
});

it("names what another export has shown, after one that is equal", () => {
  const at = Date.parse("2026-11-22T10:41:00Z");
  const reconciliation = { at, tookMs: 1, records: 9, equal: 9, drift: NO_DRIFT };
  const counts = { tookMs: 1, records: 5, equal: 2 };
  const noted = { ...counts, source: "folder", kind: "crm", asOf: at } as const;
  const openComparisons = [
    // The last one itself is told already, and what no plan repairs is not.
    { ...noted, at, drift: { missing: 1 } },
    { ...noted, at: at - 60_000, drift: { different: 2, ended: 1, extra: 5 } },
    { ...noted, at: at - 120_000, drift: { invalid: 4 } },
  ];
  const found = reconcileFindings({
    ...IDLE,
    folder: undefined,
    isFeeding: false,
    openComparisons,
    reconciliation,
  });
  expect(found.map(({ says }) => says)).toEqual([
    "3 relations differ from the CRM, as the comparison of 2026-11-22T10:40:00Z found: carry its plan out, or compare again (crmsync reconcile).",
  ]);
});

it("is silent while a plan is carried out, but not about what that plan does not repair", () => {
  expect(findingsOf({ missing: 2 }, true)).toEqual([]);
  const at = Date.parse("2026-11-22T10:41:00Z");
  const noted = { tookMs: 1, records: 5, equal: 2, kind: "crm", asOf: at } as const;
  const drift = { ...NO_DRIFT, different: 2 };
  const found = (plan: string, fed: string) =>
    reconcileFindings({
      ...IDLE,
      folder: undefined,
      isFeeding: true,
      feeding: { id: fed, entries: 900, left: 500, requests: 500 },
      openComparisons: [{ ...noted, at: at - 60_000, source: "folder", drift: { missing: 7 } }],
      reconciliation: { ...noted, at, drift, planId: plan },
    }).map(({ says }) => says.match(/\d+ relations differ/g));
  expect(found("a", "a")).toEqual([["7 relations differ"]]);
  expect(found("a", "b")).toEqual([["2 relations differ"]]);
});

it("folds what earlier comparisons of other exports have found", () => {
  const at = Date.parse("2026-11-22T10:41:00Z");
  const counts = { tookMs: 1, records: 5, equal: 2 };
  const noted = { ...counts, source: "command", kind: "crm", asOf: at } as const;
  const before = (minutes: number, name: string, missing: number) => ({
    ...noted,
    at: at - minutes * 60_000,
    name,
    drift: { missing },
  });
  const said = (openComparisons: (typeof IDLE)["openComparisons"]) =>
    reconcileFindings({
      ...IDLE,
      folder: undefined,
      openComparisons,
      reconciliation: { ...noted, at, name: "a.csv", drift: { ...NO_DRIFT, different: 2 } },
    }).map(({ says }) => says.split(": carry")[0]);
  const last =
    "2 relations differ from the CRM, as the comparison of a.csv, 2026-11-22T10:41:00Z found";
  expect(said([before(1, "b.csv", 7)])).toEqual([
    `${last}; 7 more in another one (of b.csv, 2026-11-22T10:40:00Z)`,
  ]);
  expect(said([before(1, "b.csv", 7), before(2, "hubspot", 30), before(3, "c", 1)])).toEqual([
    `${last}; 38 more in 3 others (the newest of b.csv, 2026-11-22T10:40:00Z)`,
  ]);
});

it("names a scheduled reconciliation that has not ended, failed or asks for a decision", () => {
  const now = Date.parse("2026-11-22T10:41:00Z");
  const said = (readings: Partial<typeof IDLE>) =>
    reconcileFindings({ ...IDLE, now, reconciliation: undefined, folder: undefined, ...readings });
  const ranWith = (result: "success" | "stopped" | "failed") => ({
    reconcileNextAt: now,
    reconcileRuns: { schedule: { at: now - 60_000, tookMs: 1, result } },
  });
  expect(said({})).toEqual([]);
  expect(said({ reconcileNextAt: now - 3_600_000 })).toEqual([]);
  expect(said(ranWith("success"))).toEqual([]);
  // Its plan may take days. That the run before has failed is told meanwhile.
  expect(said({ reconcileNextAt: now - 86_400_000, isFeeding: true })).toEqual([]);
  expect(said({ ...ranWith("failed"), isFeeding: true })).toHaveLength(1);
  // Without a schedule, the last run of an earlier one is no news.
  expect(said({ ...ranWith("failed"), reconcileNextAt: undefined })).toEqual([]);
  for (const [readings, says] of [
    [{ reconcileNextAt: now - 3_600_001 }, /due at 2026-11-22T09:40:59Z has not ended/],
    [ranWith("failed"), /^The last scheduled reconciliation \(2026-11-22T10:40:00Z\) has failed/],
    [ranWith("stopped"), /has stopped, and asks for a decision/],
  ] as const) {
    expect(said(readings)).toEqual([
      {
        severity: "warning",
        effect: "figures",
        says: expect.stringMatching(says) as string,
        runbook: "docs/runbook.md#crmsyncreconcileoverdue",
      },
    ]);
  }
});
