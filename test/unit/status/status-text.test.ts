import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { readConfig } from "../../../src/base/config.ts";
import { statusLines } from "../../../src/operate/status/status-text.ts";
import { statusOf } from "../../../src/operate/status/status.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";

const NOW = Date.parse("2026-11-25T12:00:00Z");

it("a scheduled run that is due is not called the next one", () => {
  const reconciled = (reconcileNextAt: number) => {
    const status = statusOf({ ...IDLE, now: NOW, reconcileNextAt }, readConfig({}), "1");
    const view = { paint: (_: string, text: string) => text, bars: false, peak: undefined };
    return statusLines(status, view).find((line) => line.startsWith("reconciled"));
  };
  expect(reconciled(NOW + 60_000)).toMatch(/ · next /);
  expect(reconciled(NOW - 60_000)).toMatch(/ · due since /);
});

it("the last comparison tells when it was, and how many of how many are equal", () => {
  const at = Date.parse("2026-11-22T14:17:00Z");
  const found = { at, tookMs: 1, records: 60, equal: 54, drift: { ...NO_DRIFT, emptied: 6 } };
  const comparedExports = {
    a: { asOf: at, at, name: "a.csv", since: [{ at, count: 7, held: 0 }] },
  };
  const readings = { ...IDLE, now: NOW, reconciliation: found, comparedExports };
  const status = statusOf(readings, readConfig({}), "1");
  const view = { paint: (_: string, text: string) => text, bars: false, peak: undefined };
  expect(statusLines(status, view)).toContainEqual(
    expect.stringMatching(
      /last compared .*14:17.*: 54 of 60 equal · emptied 6 · a\.csv, as of .*14:17.*: 7 differ/,
    ),
  );
});

it("pacing, denial and ledger are shown while they are unusual", () => {
  const shown = (readings: Partial<typeof IDLE>) => {
    const status = statusOf({ ...IDLE, now: NOW, ...readings }, readConfig({}), "1");
    const view = { paint: (_: string, text: string) => text, bars: false, peak: undefined };
    return statusLines(status, view).filter((line) => /^(?:denial|ledger)|pacing/.test(line));
  };
  expect(shown({ warmUp: { ...IDLE.warmUp, state: "done" } })).toEqual([]);
  const steady = { ...IDLE.quota, pacing: "steady" as const };
  expect(shown({ quota: steady })).toEqual([expect.stringContaining("pacing steady")]);
  expect(
    shown({ warmUp: { ...IDLE.warmUp, state: "running", relations: 5000 }, ledgerRows: 1 }),
  ).toEqual(["ledger     being warmed, 5000 relations listed, 1 record known"]);
});

it("every line is broken between words at the edge of the terminal, and goes on beside its label", () => {
  const status = statusOf({ ...IDLE, now: NOW }, readConfig({}), "1");
  const says = "327 dead letters wait for a person: crmsync dead list.";
  const findings = [
    {
      severity: "warning" as const,
      effect: "figures" as const,
      says,
      runbook: "docs/runbook.md#x",
    },
  ];
  const view = { paint: (_: string, text: string) => text, bars: true, peak: 0 };
  const all = (columns?: number) => statusLines({ ...status, findings }, { ...view, columns });
  const shown = (columns?: number) => {
    const lines = all(columns).slice(1);
    return lines.slice(0, lines.indexOf(""));
  };
  expect(shown()).toEqual([`! ${says}`, "  docs/runbook.md#x"]);
  expect(shown(40)).toEqual([
    "! 327 dead letters wait for a person:",
    "  crmsync dead list.",
    "  docs/runbook.md#x",
  ]);
  const narrow = all(40).slice(1);
  expect(narrow.filter((line) => line.length > 40)).toEqual([]);
  // Nothing is lost: the words are those of the unbroken lines, in their order.
  expect(narrow.join(" ").split(/ +/)).toEqual(all().slice(1).join(" ").split(/ +/));
  expect(narrow.filter((line) => /^ {11}\S/.test(line)).length).toBeGreaterThan(1);
});

it("what waits is never drained in 0 s", () => {
  const shown = (inMs: number) => {
    const quota = { ...IDLE.quota, hasSent: true, drainedAt: () => NOW + inMs };
    const readings = { ...IDLE, now: NOW, quota, unsynced: { live: 3, bulk: 0 } };
    const view = { paint: (_: string, text: string) => text, bars: false, peak: undefined };
    const status = statusOf(readings, readConfig({}), "1");
    const backlog = { ...status.backlog, drainedAt: new Date(NOW + inMs).toISOString() };
    return statusLines({ ...status, backlog }, view).find((line) => line.startsWith("drained"));
  };
  expect(shown(0)).toMatch(/^drained +within seconds$/);
  expect(shown(90_000)).toMatch(/\(in 2 min\)$/);
});
