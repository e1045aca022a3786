import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { IDLE, metricsReference } from "../../../deploy/metrics-reference.ts";
import { parseSamples } from "../../../src/demo/daemon-metrics.ts";
import { durationName, isDuration } from "../../../src/base/duration-buckets.ts";
import { createMetrics } from "../../../src/operate/status/metrics.ts";
import type { Readings, TimelyReadings } from "../../../src/operate/status/readings.ts";
import { createScrape } from "../../../src/operate/status/gauges.ts";

const NOW = 1_800_000_000_000;

const READINGS: Readings = {
  ...IDLE,
  now: NOW,
  inboxJobs: { wait: 3 },
  syncJobs: { delayed: 2 },
  oldest: { live: NOW - 5000, bulk: undefined },
  unsynced: { live: 2, bulk: 0 },
  deadLetters: 4,
  denial: { cause: "token", since: NOW, address: "", nextProbeAt: NOW, probes: 0 },
  quota: { ...IDLE.quota, remaining: 7, drainedAt: () => NOW + 100_000 },
  sources: { "/crm/acme": NOW - 1000 },
  fallback: true,
  processes: [
    { id: "a:1", version: "1", roles: ["http", "intake", "sync"], startedAt: NOW, seenAt: NOW },
    { id: "a:2", version: "1", roles: ["sync"], startedAt: NOW, seenAt: NOW },
  ],
};

/** Undefined: Redis does not answer. */
const timely = (readings: Readings | undefined): TimelyReadings => ({
  pingMs: readings === undefined ? undefined : 203,
  readings,
});

/** Scrapes a process and returns its samples by name and labels. */
async function scraped(read: () => Readings | undefined, metrics = createMetrics()) {
  return samplesOf(await createScrape(metrics, "1.2.3", async () => timely(read())).text());
}

function samplesOf(text: string) {
  const all = parseSamples(text);
  return (name: string, labels: Record<string, string> = {}) =>
    all.filter(
      (sample) =>
        sample.name === `crmsync_${name}` &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
}

describe("series", () => {
  it("every counter starts at 0, for every outcome, status and reason", async () => {
    const of = await scraped(() => READINGS);
    expect(of("changes_total", { outcome: "created" })).toMatchObject([{ value: 0 }]);
    expect(of("service_requests_total", { operation: "update", code: "429" })).toHaveLength(1);
    expect(of("service_requests_total", { operation: "list", code: "none" })).toHaveLength(1);
    expect(of("rejected_total", { reason: "service_rejected" })).toHaveLength(1);
    expect(of("retries_total", { reason: "server_error" })).toHaveLength(1);
    expect(of("pauses_total", { reason: "throttled" })).toHaveLength(1);
    expect(of("jobs_stalled_total")).toMatchObject([{ value: 0 }]);
    expect(of("change_freshness_seconds_count", { lane: "bulk" })).toMatchObject([{ value: 0 }]);
    // Known from another process: it starts at 0 here, so that its first event counts.
    expect(of("events_received_total", { source: "/crm/acme" })).toMatchObject([{ value: 0 }]);
  });

  it("gauges show the shared state as it was read", async () => {
    const of = await scraped(() => READINGS);
    expect(of("queue_jobs", { queue: "sync", state: "delayed" })).toMatchObject([{ value: 2 }]);
    expect(of("oldest_unsynced_age_seconds", { lane: "live" })).toMatchObject([{ value: 5 }]);
    expect(of("quota_pacing", { mode: "fallback" })).toMatchObject([{ value: 1 }]);
    expect(of("quota_pacing", { mode: "burst" })).toMatchObject([{ value: 0 }]);
    expect(of("sending_stopped", { reason: "token_denied" })).toMatchObject([{ value: 1 }]);
    expect(of("sending_stopped", { reason: "throttled" })).toMatchObject([{ value: 0 }]);
    expect(of("auth_state").filter(({ value }) => value === 1)).toHaveLength(1);
    expect(of("processes", { role: "sync" })).toMatchObject([{ value: 2 }]);
    expect(of("redis_up")).toMatchObject([{ value: 1 }]);
    expect(of("token_issued_timestamp_seconds")).toMatchObject([{ value: 0 }]);
  });

  it("every status with which HTTP intake answers is counted by its number", async () => {
    const metrics = createMetrics();
    const statuses = [200, 202, 204, 400, 401, 409, 413, 415, 429, 500, 503];
    for (const status of statuses) metrics.countIntakeResponse("/events", status);
    const of = await scraped(() => undefined, metrics);
    const counted = of("intake_requests_total", { route: "events" });
    const codes = counted.filter(({ value }) => value === 1).map(({ labels }) => labels["code"]);
    expect(codes).toEqual(statuses.map(String));
  });

  it("a rejected change counts once, by its first field, and for the role that rejected it", async () => {
    const metrics = createMetrics();
    const problem = (field: string) => ({ field, rule: "any", kind: "any" });
    metrics.countRejected("invalid", [problem("wealthSource[2]"), problem("email")]);
    metrics.countRejected("unmappable", [problem("a name from a record")]);
    metrics.countRejected("bad_event", [problem("time")]);
    metrics.countRejected("service_rejected", [problem("birthDate")]);
    metrics.countRejected("defect", [problem("")]);
    metrics.countPassed("sync");
    const of = await scraped(() => READINGS, metrics);
    const counted = of("rejected_total").filter(({ value }) => value > 0);
    expect(counted.map(({ labels, value }) => [labels["reason"], labels["field"], value])).toEqual([
      ["bad_event", "time", 1],
      ["unmappable", "other", 1],
      ["invalid", "wealthSource", 1],
      ["service_rejected", "none", 1],
      ["defect", "none", 1],
    ]);
    const checks = (role: string, result: string) => of("checks_total", { role, result });
    expect(checks("intake", "rejected")).toMatchObject([{ value: 4 }]);
    expect(checks("sync", "rejected")).toMatchObject([{ value: 1 }]);
    expect(checks("sync", "passed")).toMatchObject([{ value: 1 }]);
    expect(checks("intake", "passed")).toMatchObject([{ value: 0 }]);
    const shared = await metrics.sharedCounts();
    expect(shared.get("rejected invalid wealthSource")).toBe(1);
    expect(shared.get("checked intake rejected")).toBe(4);
  });

  it("only a relation's successful requests tell how fast the service is", async () => {
    const metrics = createMetrics();
    metrics.timeReply("update", 200, 100);
    metrics.timeReply("create", 201, 101);
    for (const [operation, status] of [
      ["update", 500],
      ["update", undefined],
      ["list", 200],
      ["schema-config", 200],
    ] as const) {
      metrics.timeReply(operation, status, 100);
    }
    const counted = [...(await metrics.sharedCounts())].filter(([name]) => isDuration(name));
    expect(counted).toEqual([[durationName(100), 2]]);
  });

  it("Redis is up while it answers, also when its state cannot be read", async () => {
    const scrape = createScrape(createMetrics(), "1.2.3", async () => {
      return { pingMs: 203, readings: undefined };
    });
    const of = samplesOf(await scrape.text());
    expect(of("redis_up")).toMatchObject([{ value: 1 }]);
    expect(of("redis_ping_seconds")).toMatchObject([{ value: 0.203 }]);
    expect(of("quota_limit")).toEqual([]);
  });

  it("the clock of a source is ahead for an hour after its last such event", async () => {
    const ahead = { "/crm/acme": { aheadMs: 600_000, at: NOW - 1000 } };
    const now = await scraped(() => ({ ...READINGS, clocksAhead: ahead }));
    expect(now("source_clock_ahead_seconds")).toMatchObject([{ value: 600 }]);
    const later = await scraped(() => ({ ...READINGS, now: NOW + 3_600_000, clocksAhead: ahead }));
    expect(later("source_clock_ahead_seconds")).toMatchObject([{ value: 0 }]);
  });

  it("a gauge whose value is unknown has no sample, and no old one either", async () => {
    let readings: Readings | undefined = { ...READINGS, denial: undefined };
    const scrape = createScrape(createMetrics(), "1.2.3", async () => timely(readings));
    const before = samplesOf(await scrape.text());
    expect(before("quota_remaining")).toHaveLength(1);
    expect(before("backlog_drained_timestamp_seconds")).toHaveLength(1);
    readings = READINGS;
    expect(samplesOf(await scrape.text())("backlog_drained_timestamp_seconds")).toEqual([]);
    readings = undefined;
    const of = samplesOf(await scrape.text());
    for (const name of ["quota_remaining", "dead_letters", "queue_jobs", "auth_state"]) {
      expect(of(name), name).toEqual([]);
    }
    expect(of("redis_up")).toMatchObject([{ value: 0 }]);
    expect(of("redis_ping_seconds")).toEqual([]);
    expect(of("build_info")).toHaveLength(1);
  });
});

describe("labels", () => {
  it("stay bounded for any input", async () => {
    const metrics = createMetrics();
    for (let n = 0; n < 200; n += 1) metrics.sourceLabel(`/source/${n}`);
    expect(metrics.sourceLabel("/source/7")).toBe("/source/7");
    expect(metrics.sourceLabel("/source/199")).toBe("other");
    expect(createMetrics().sourceLabel("x".repeat(101))).toBe("other");
    metrics.countRequest("PUT", "update", 418);
    metrics.countRetry("something new");
    const of = await scraped(() => READINGS, metrics);
    expect(of("service_requests_total", { code: "418" })).toEqual([]);
    expect(of("service_requests_total", { operation: "update", code: "other" })).toMatchObject([
      { value: 1 },
    ]);
    expect(of("retries_total", { reason: "other" })).toMatchObject([{ value: 1 }]);
  });
});

it("docs/metrics.md matches the code (node deploy/generate.ts)", async () => {
  const file = join(import.meta.dirname, "../../../docs/metrics.md");
  expect(readFileSync(file, "utf8")).toBe(await metricsReference());
});
