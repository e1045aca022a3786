import { expect, test } from "vitest";
import type { Figures } from "../../../src/demo/figures.ts";
import { renderLine, renderTable } from "../../../src/demo/table.ts";

const figures: Figures = {
  progress: 0.5,
  scheduled: 800,
  delivered: 412,
  sentTwice: 20,
  coalesced: 121,
  unchanged: 40,
  superseded: 3,
  deadLetters: 6,
  service: { requests: 290, created: 170, updated: 118, throttled: 0 },
  quota: { limit: 1000, remaining: 710 },
  freshness: { p50: 1, p99: 5 },
  backlog: { inbox: 0, records: 12, oldest: 1.5 },
  daemon: { pid: 4711, restarts: 0 },
};

const plain = (_: string, text: string): string => text;

test("the table shows every figure in lines that fit a terminal", () => {
  const lines = renderTable(figures, plain);
  const text = lines.join("\n");
  for (const part of [
    "09:30:00",
    "710 of 1000",
    "412",
    "of 800",
    "1.007",
    "≤ 1 s",
    "≤ 5 s",
    "4711",
  ]) {
    expect(text).toContain(part);
  }
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(100);
});

test("the table has the same number of lines while the daemon is down", () => {
  const unknown = { inbox: undefined, records: undefined, oldest: undefined };
  const down = {
    ...figures,
    deadLetters: undefined,
    quota: { limit: 1000, remaining: undefined },
    freshness: { p50: undefined, p99: undefined },
    backlog: unknown,
    daemon: { pid: undefined, restarts: 1 },
  };
  const lines = renderTable(down, plain);
  expect(lines).toHaveLength(renderTable(figures, plain).length);
  expect(lines.join("\n")).not.toMatch(/NaN|undefined/);
  expect(renderLine(down)).not.toMatch(/NaN|undefined/);
});

test("the quota's bar turns from green to red as the quota is spent", () => {
  const coloured = (remaining: number): string | undefined =>
    renderTable(
      { ...figures, quota: { limit: 1000, remaining } },
      (style, text) => `<${style}>${text}`,
    )[1];
  expect(coloured(900)).toContain("<green>");
  expect(coloured(200)).toContain("<yellow>");
  expect(coloured(20)).toContain("<red>");
});

test("without a terminal the figures are one line", () => {
  const line = renderLine(figures);
  expect(line).not.toContain("\n");
  expect(line).toContain("events in: 412 ");
  expect(line).toContain("per net change: 1.007 ");
});
