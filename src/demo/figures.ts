/** The numbers that the demo shows while it runs. */
import type { DaemonMetrics } from "./daemon-metrics.ts";

export interface Figures {
  /** Share of the hour that has passed, 0 to 1. */
  readonly progress: number;
  readonly scheduled: number;
  readonly delivered: number;
  readonly sentTwice: number;
  readonly coalesced: number;
  readonly unchanged: number;
  readonly superseded: number;
  readonly deadLetters: number | undefined;
  readonly service: ServiceCounts;
  readonly quota: { readonly limit: number; readonly remaining: number | undefined };
  /** Upper bounds in seconds. */
  readonly freshness: { readonly p50: number | undefined; readonly p99: number | undefined };
  readonly backlog: ReturnType<typeof readBacklog>;
  readonly daemon: { readonly pid: number | undefined; readonly restarts: number };
}

/** Counted by the service itself. */
export type ServiceCounts = Readonly<typeof NO_COUNTS>;

export const NO_COUNTS = { requests: 0, created: 0, updated: 0, throttled: 0 };

const WAITING = ["wait", "prioritized", "active", "delayed"] as const;

/** What waits, and the age in seconds of the oldest change that is not on the service; undefined while the daemon is down. */
export function readBacklog(metrics: DaemonMetrics) {
  const jobs = (queue: string): number | undefined => {
    const counts = WAITING.map((state) => metrics.gauge("queue_jobs", { queue, state }));
    return counts.includes(undefined) ? undefined : counts.reduce((a = 0, b = 0) => a + b);
  };
  return {
    inbox: jobs("crm-events"),
    records: jobs("sync"),
    oldest: metrics.gauge("oldest_unsynced_age_seconds"),
  };
}

/** Requests per net change; a dash while there is none. */
export function requestsPerNetChange(requests: number, netChanges: number): string {
  return netChanges === 0 ? "–" : (requests / netChanges).toFixed(3);
}
