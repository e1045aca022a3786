import { ExportResultCode, type ExportResult } from "@opentelemetry/core";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { reportOutages } from "../../../src/base/tracing-export.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** An exporter whose results the test gives, and what was logged of it. */
function exporterOf() {
  const lines: string[] = [];
  const log = createLog("info", { destination: { write: (line) => void lines.push(line) } });
  const waiting: ((result: ExportResult) => void)[] = [];
  const exporter = {
    export: (_items: string[], done: (result: ExportResult) => void) => void waiting.push(done),
  };
  reportOutages(exporter, log);
  const events = () => lines.map((line) => (JSON.parse(line) as { event: string }).event);
  return { exporter, waiting, events };
}

const SUCCESS = { code: ExportResultCode.SUCCESS };

it("an answer without an end is a failed export after 30 seconds, and its later result is ignored", () => {
  const { exporter, waiting, events } = exporterOf();
  const results: ExportResult[] = [];
  exporter.export([], (result) => void results.push(result));
  vi.advanceTimersByTime(29_000);
  expect(results).toEqual([]);
  vi.advanceTimersByTime(1000);
  expect(results).toEqual([{ code: ExportResultCode.FAILED }]);
  waiting[0]?.(SUCCESS);
  expect(results).toHaveLength(1);
  expect(events()).toEqual(["tracing.unavailable"]);

  exporter.export([], () => {});
  waiting[1]?.(SUCCESS);
  exporter.export([], () => {});
  waiting[2]?.(SUCCESS);
  vi.advanceTimersByTime(60_000);
  expect(events()).toEqual(["tracing.unavailable", "tracing.recovered"]);
});
