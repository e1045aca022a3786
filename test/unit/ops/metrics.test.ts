import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { metricsReference } from "../../../deploy/metrics-reference.ts";
import { parseSamples } from "../../../src/demo/daemon-metrics.ts";
import {
  createMetrics,
  REJECT_REASONS,
  type Metrics,
  type SharedState,
} from "../../../src/ops/metrics.ts";
import { DEAD_REASONS } from "../../../src/sync/dead-letter.ts";

const STATE: SharedState = {
  queueJobs: { "crm-events": { wait: 3 }, sync: { delayed: 2 } },
  oldestUnsyncedAge: { live: 5, bulk: 0 },
  unsynced: { live: 2, bulk: 0 },
  deadLetters: 4,
  quotaLimit: 1000,
  quotaRemaining: 7,
  quotaReset: 1_800_000_000,
  pacing: "fallback",
  backlogDrainedAt: 1_800_000_100,
  stopped: new Set(["token_denied"]),
  authState: "token_denied",
  tokenIssuedAt: undefined,
  sources: { "/crm/acme": 1_799_999_999 },
  redisDurable: true,
  redisUsedBytes: 1000,
  redisLimitBytes: 0,
  processes: { http: 1, intake: 1, sync: 2 },
};

async function samples(metrics: Metrics) {
  const all = parseSamples(await metrics.text());
  return (name: string, labels: Record<string, string> = {}) =>
    all.filter(
      (sample) =>
        sample.name === `crmsync_${name}` &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
}

describe("series", () => {
  it("every counter is born at 0, of every outcome, status and reason", async () => {
    const of = await samples(createMetrics("1.2.3", async () => STATE));
    expect(of("changes_total", { outcome: "created" })).toMatchObject([{ value: 0 }]);
    expect(of("service_requests_total", { operation: "update", code: "429" })).toHaveLength(1);
    expect(of("service_requests_total", { operation: "list", code: "none" })).toHaveLength(1);
    expect(of("retries_total", { reason: "server_error" })).toHaveLength(1);
    expect(of("pauses_total", { reason: "throttled" })).toHaveLength(1);
    expect(of("jobs_stalled_total")).toMatchObject([{ value: 0 }]);
    expect(of("change_freshness_seconds_count", { lane: "bulk" })).toMatchObject([{ value: 0 }]);
    // Another process has heard of it: here it is born at 0, so that its first event counts.
    expect(of("events_received_total", { source: "/crm/acme" })).toMatchObject([{ value: 0 }]);
    expect(REJECT_REASONS).toEqual(DEAD_REASONS);
  });

  it("shared state is told as it stands", async () => {
    const of = await samples(createMetrics("1.2.3", async () => STATE));
    expect(of("queue_jobs", { queue: "sync", state: "delayed" })).toMatchObject([{ value: 2 }]);
    expect(of("quota_pacing", { mode: "fallback" })).toMatchObject([{ value: 1 }]);
    expect(of("quota_pacing", { mode: "free" })).toMatchObject([{ value: 0 }]);
    expect(of("sending_stopped", { reason: "token_denied" })).toMatchObject([{ value: 1 }]);
    expect(of("sending_stopped", { reason: "throttled" })).toMatchObject([{ value: 0 }]);
    expect(of("auth_state").filter(({ value }) => value === 1)).toHaveLength(1);
    expect(of("redis_up")).toMatchObject([{ value: 1 }]);
    expect(of("token_issued_timestamp_seconds")).toMatchObject([{ value: 0 }]);
  });

  it("what cannot be known has no sample, and no old one either", async () => {
    let state: SharedState | undefined = STATE;
    const metrics = createMetrics("1.2.3", async () => state);
    expect((await samples(metrics))("quota_remaining")).toHaveLength(1);
    state = undefined;
    const of = await samples(metrics);
    for (const name of ["quota_remaining", "dead_letters", "queue_jobs", "auth_state"]) {
      expect(of(name), name).toEqual([]);
    }
    expect(of("redis_up")).toMatchObject([{ value: 0 }]);
    expect(of("build_info")).toHaveLength(1);
    state = { ...STATE, backlogDrainedAt: undefined };
    expect((await samples(metrics))("backlog_drained_timestamp_seconds")).toEqual([]);
  });
});

describe("labels", () => {
  it("stay bounded, whatever comes", async () => {
    const metrics = createMetrics("1.2.3", async () => STATE);
    for (let n = 0; n < 200; n += 1) metrics.sourceLabel(`/source/${n}`);
    expect(metrics.sourceLabel("/source/7")).toBe("/source/7");
    expect(metrics.sourceLabel("/source/199")).toBe("other");
    expect(createMetrics("1", async () => STATE).sourceLabel("x".repeat(101))).toBe("other");
    metrics.requested("PUT", "update", 418);
    metrics.putOff("something new");
    const of = await samples(metrics);
    expect(of("service_requests_total", { code: "418" })).toEqual([]);
    expect(of("service_requests_total", { operation: "update", code: "other" })).toMatchObject([
      { value: 1 },
    ]);
    expect(of("retries_total", { reason: "other" })).toMatchObject([{ value: 1 }]);
  });
});

it("docs/metrics.md is what the code says (node deploy/generate.ts)", async () => {
  const file = join(import.meta.dirname, "../../../docs/metrics.md");
  expect(readFileSync(file, "utf8")).toBe(await metricsReference());
});
