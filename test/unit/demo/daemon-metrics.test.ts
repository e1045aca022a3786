import { Counter, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { DaemonMetrics, parseSamples } from "../../../src/demo/daemon-metrics.ts";

test("reads samples as prom-client writes them", async () => {
  const registry = new Registry();
  const counter = new Counter({
    name: "crmsync_events_total",
    help: "h",
    labelNames: ["source", "code"],
    registers: [registry],
  });
  counter.inc({ source: 'a "b", c}', code: "200" }, 3);
  const [sample] = parseSamples(await registry.metrics());
  expect(sample).toMatchObject({ name: "crmsync_events_total", labels: { code: "200" }, value: 3 });
});

test("counters continue over a restart, gauges do not", () => {
  const metrics = new DaemonMetrics();
  metrics.update('crmsync_changes_total{outcome="created"} 5\ncrmsync_dead_letters 2');
  expect(metrics.gauge("dead_letters")).toBe(2);
  metrics.ended();
  expect(metrics.gauge("dead_letters")).toBeUndefined();
  metrics.update('crmsync_changes_total{outcome="created"} 1\ncrmsync_dead_letters 3');
  expect(metrics.count("changes_total", { outcome: "created" })).toBe(6);
  expect(metrics.count("changes_total", { outcome: "updated" })).toBe(0);
  expect(metrics.gauge("dead_letters")).toBe(3);
});

test("a quantile is the upper bound of its bucket", async () => {
  const registry = new Registry();
  const histogram = new Histogram({
    name: "crmsync_freshness_seconds",
    help: "h",
    labelNames: ["lane"],
    buckets: [1, 5, 15],
    registers: [registry],
  });
  const metrics = new DaemonMetrics();
  metrics.update(await registry.metrics());
  expect(metrics.quantile("freshness_seconds", 0.5)).toBeUndefined();
  for (const seconds of [0.1, 0.2, 0.3, 4]) histogram.observe({ lane: "live" }, seconds);
  histogram.observe({ lane: "bulk" }, 100);
  metrics.update(await registry.metrics());
  expect(metrics.quantile("freshness_seconds", 0.5, { lane: "live" })).toBe(1);
  expect(metrics.quantile("freshness_seconds", 0.99, { lane: "live" })).toBe(5);
  expect(metrics.quantile("freshness_seconds", 0.99, { lane: "bulk" })).toBe(
    Number.POSITIVE_INFINITY,
  );
});
