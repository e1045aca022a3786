import { describe, expect, it } from "vitest";
import { expose, formatFor } from "../../../src/base/exposition.ts";
import { createMetrics } from "../../../src/operate/status/metrics.ts";

const SPAN = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
const PROMETHEUS_2 =
  "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const PROMETHEUS_3 =
  "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

describe("the format that a scraper asks for", () => {
  it.for([
    [PROMETHEUS_2, "openmetrics"],
    [PROMETHEUS_3, "openmetrics"],
    ["Application/OpenMetrics-Text", "openmetrics"],
    ["text/plain;version=0.0.4, application/openmetrics-text;q=0.3", "text"],
    ["application/openmetrics-text;q=0", "text"],
    ["application/openmetrics-text;q=x", "text"],
    ["*/*", "text"],
    ["", "text"],
    [undefined, "text"],
  ] as const)("%s: %s", ([accept, format]) => {
    expect(formatFor(accept)).toBe(format);
  });
});

it("OpenMetrics adds exemplars, and writing it changes nothing in the text", async () => {
  const metrics = createMetrics(() => SPAN);
  metrics.changes.inc({ outcome: "created" });
  metrics.observeFreshness("live", 2);
  const before = own(await expose(metrics.registry, "text"));
  const open = own(await expose(metrics.registry, "openmetrics"));
  expect(own(await expose(metrics.registry, "text"))).toEqual(before);

  expect(before).toContain('crmsync_changes_total{outcome="created"} 1');
  expect(before).toContain('crmsync_change_freshness_seconds_bucket{le="5",lane="live"} 1');
  expect(before).toContain("# TYPE crmsync_changes_total counter");
  expect(before.join("\n")).not.toContain("trace_id");

  expect(open).toContain('crmsync_changes_total{outcome="created"} 1');
  expect(open).toContain("# TYPE crmsync_changes counter");
  expect(open.find((line) => line.includes("trace_id"))).toMatch(
    /^crmsync_change_freshness_seconds_bucket\{le="5",lane="live"\} 1 # \{trace_id="0af7651916cd43dd8448eb211c80319c",span_id="b7ad6b7169203331"\} 2 \d+\.?\d*$/,
  );
  const samples = (lines: string[]) => lines.filter((line) => !line.startsWith("#")).map(bare);
  expect(samples(open)).toEqual(samples(before));
});

it("without a recorded span there is no exemplar, and without tracing no OpenMetrics", async () => {
  const unsampled = createMetrics(() => undefined);
  unsampled.observeFreshness("live", 2);
  const text = await expose(unsampled.registry, "openmetrics");
  expect(text).toContain('crmsync_change_freshness_seconds_bucket{le="5",lane="live"} 1\n');
  expect(text.endsWith("\n# EOF\n")).toBe(true);
  expect(createMetrics().formatFor(PROMETHEUS_3)).toBe("text");
});

/** Lines of our own metrics: those of the process change from one moment to the next. */
const own = (text: string): string[] =>
  text.split("\n").filter((line) => line.includes("crmsync_"));

const bare = (line: string): string => line.replace(/ # .*/, "");
