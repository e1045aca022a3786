import { expect, it } from "vitest";
import { auditFindings } from "../../../src/operate/status/process-findings.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { stopsIn } from "../../../src/operate/status/stops.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

const processOf = (id: string, auditFailure?: string, roles = ["sync"]) => ({
  id,
  version: "1",
  roles,
  startedAt: 0,
  seenAt: NOW,
  ...(auditFailure !== undefined && { auditFailure }),
});

const readings = (processes: ReturnType<typeof processOf>[], actWaitsSince?: number): Readings =>
  ({ now: NOW, processes, actWaitsSince, auditHeads: {} }) as unknown as Readings;

const says = (...given: Parameters<typeof readings>) =>
  Array.from(auditFindings(readings(...given)), (one) => one.says);

const FULL = "/var/log/audit.log on host: ENOSPC";

it("says nothing while every trail can be written and no act waits for long", () => {
  expect(says([processOf("a"), processOf("b")], NOW - 5000)).toEqual([]);
});

it("names the one process that cannot write, while another one sends", () => {
  expect(says([processOf("a", FULL), processOf("b")])).toEqual([
    `The process a cannot write its audit trail (${FULL}): it leaves changes to the other processes.`,
  ]);
});

it("is a stop when no process with the role sync can write", () => {
  const all = readings([
    processOf("a", FULL),
    processOf("b", FULL),
    processOf("c", undefined, ["http"]),
  ]);
  expect([...auditFindings(all)]).toEqual([]);
  const rest = {
    redis: { usedBytes: 0, limitBytes: 0, version: "7.0" },
    paused: [],
    quota: {},
    warmUp: { state: "done" },
  };
  const stops = stopsIn({ ...all, ...rest } as unknown as Readings);
  expect(stops.map(({ reason }) => reason)).toContain("audit_failed");
  const one = readings([processOf("a", FULL), processOf("b")]);
  const reasons = stopsIn({ ...one, ...rest } as unknown as Readings).map(({ reason }) => reason);
  expect(reasons).not.toContain("audit_failed");
});

it("names an act that no process writes", () => {
  const [first] = says([processOf("a")], NOW - 120_000);
  expect(first).toMatch(/^An act of an operator waits since .* no running process .* AUDIT_LOG\.$/);
});

it("names a trail of which lines were gone, for a week", () => {
  const head = { seq: 3, hash: "h", where: "/var/log/audit.log on web1", at: NOW };
  const of = (lostAt?: number) => {
    const auditHeads = { c1: { ...head, lostAt }, c2: head };
    const all = { ...readings([processOf("a")]), auditHeads } as unknown as Readings;
    return Array.from(auditFindings(all), (one) => one.says);
  };
  expect(of(NOW - 60_000)).toEqual([
    expect.stringMatching(
      /^Lines of the audit trail \/var\/log\/audit.log on web1 were gone at 2026-11-21T11:59:00Z/,
    ),
  ]);
  expect(of()).toEqual([]);
  expect(of(NOW - 8 * 86_400_000)).toEqual([]);
});
