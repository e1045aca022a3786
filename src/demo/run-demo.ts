/** Runs the hour on the started components and makes the verdict. */
import { setTimeout as delay } from "node:timers/promises";
import { Inbox } from "../core/event/inbox.ts";
import { openRedis } from "../base/open-redis.ts";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../core/service-spec/limits.ts";
import { compare } from "./compare.ts";
import { DaemonMetrics } from "./daemon-metrics.ts";
import { NO_COUNTS, readBacklog } from "./figures.ts";
import type { Figures } from "./figures.ts";
import { planHour } from "./hour.ts";
import type { Clock, Components } from "./components.ts";
import { produce } from "./producer.ts";
import type { Screen } from "./screen.ts";
import { countUnchangedWrites, readCounts, readRelations } from "./service-reader.ts";
import type { Verdict } from "./verdict.ts";

export interface DemoOptions {
  readonly seed: number;
  readonly clients: number;
  readonly seconds: number;
}

const POLL_MS = 400;
const SCRAPE_TIMEOUT_MS = 3000;
/** The demo gives up after this long, plus one compressed hour, without progress. */
const NO_PROGRESS_MS = 60_000;
const SETTLED_POLLS = 2;

/**
 * An hour takes `seconds`. The burst window is shortened less: 83 ms for a minute would measure the
 * jitter of a busy machine. So the demo allows fewer bursts than the real limits.
 */
export function compressClock(seconds: number): Clock {
  const hourMs = seconds * 1000;
  const scaled = (BURST_WINDOW_MS * hourMs) / HOUR_MS;
  return { hourMs, burstMs: Math.min(BURST_WINDOW_MS, Math.max(300, Math.round(scaled * 12))) };
}

export async function runDemo(
  options: DemoOptions,
  components: Components,
  screen: Screen,
  interrupted: AbortSignal,
): Promise<Verdict> {
  const { daemon, daemonUrl, ingestToken: token, service } = components;
  const { clients, seconds, seed } = options;
  const hourMs = seconds * 1000;
  const startAt = Date.now();
  const hour = planHour({ seed, clients, lengthMs: hourMs, startAt, source: "/crm/demo" });
  const { deliveries } = hour;
  const metrics = new DaemonMetrics();
  let counts = NO_COUNTS;
  let delivered = 0;
  let watchedPid: number | undefined;

  /** Shows the figures until every event is delivered and nothing waits. */
  async function watch(signal: AbortSignal): Promise<void> {
    let settledPolls = 0;
    let last = "";
    let progressAt = performance.now();
    while (settledPolls < SETTLED_POLLS) {
      await poll();
      const figures = readFigures();
      screen.show(figures);
      settledPolls = isSettled(figures) ? settledPolls + 1 : 0;
      const state = JSON.stringify([figures.delivered, figures.service, figures.backlog.records]);
      if (state !== last) progressAt = performance.now();
      last = state;
      if (performance.now() - progressAt > hourMs + NO_PROGRESS_MS) {
        screen.say(`no progress any more; still waiting for ${pendingWork(figures)}`);
        return;
      }
      await delay(POLL_MS, undefined, { signal });
    }
  }

  async function poll(): Promise<void> {
    if (daemon.pid() !== watchedPid) metrics.ended();
    watchedPid = daemon.pid();
    const [page, counted] = await Promise.allSettled([
      fetch(`${daemonUrl}/metrics`, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) }).then(
        async (response) => response.text(),
      ),
      readCounts(service),
    ]);
    // A reading of a process that has exited meanwhile must not overwrite its last one.
    if (page.status === "fulfilled" && daemon.pid() === watchedPid) metrics.update(page.value);
    if (counted.status === "fulfilled") counts = counted.value;
  }

  function readFigures(): Figures {
    const changes = (outcome: string): number => metrics.count("changes_total", { outcome });
    const fresh = (share: number): number | undefined =>
      metrics.quantile("change_freshness_seconds", share, { lane: "live" });
    return {
      progress: Math.min(1, (Date.now() - startAt) / hourMs),
      scheduled: deliveries.length,
      delivered,
      sentTwice: deliveries.length - hour.events,
      coalesced: changes("coalesced"),
      unchanged: changes("unchanged"),
      superseded: changes("superseded"),
      deadLetters: metrics.gauge("dead_letters"),
      service: counts,
      quota: {
        limit: metrics.gauge("quota_limit") ?? REQUESTS_PER_HOUR,
        remaining: metrics.gauge("quota_remaining"),
      },
      freshness: { p50: fresh(0.5), p99: fresh(0.99) },
      backlog: readBacklog(metrics),
      daemon: { pid: daemon.pid(), restarts: daemon.restarts() },
    };
  }

  async function makeVerdict(): Promise<Verdict> {
    const figures = readFigures();
    const relations = await readRelations(service, interrupted);
    const crmCodes = relations.map(({ crmCode }) => String(crmCode));
    const unchangedWrites = await countUnchangedWrites(service, crmCodes);
    const { created, updated } = figures.service;
    return {
      seed,
      clients,
      seconds,
      settled: isSettled(figures),
      pending: pendingWork(figures),
      differences: compare(hour.expected, relations),
      relations: relations.length,
      terminated: relations.filter(({ relationStatus }) => relationStatus === "terminated").length,
      expectedDeadLetters: hour.expectedDeadLetters,
      netChanges: created + updated - unchangedWrites,
      figures,
    };
  }

  const redis = openRedis(components.redis, { maxRetriesPerRequest: null });
  redis.on("error", () => {}); // ioredis reconnects; the jobs wait until then
  const ended = new AbortController();
  const signal = AbortSignal.any([interrupted, ended.signal]);
  const producing = produce({
    deliveries,
    startAt,
    inbox: new Inbox(redis, components.redis.prefix),
    eventsUrl: `${daemonUrl}/events`,
    token,
    signal,
    onDelivered: (events) => void (delivered += events),
  });
  try {
    await Promise.race([components.failed, Promise.all([producing, watch(signal)])]);
    return await makeVerdict();
  } finally {
    ended.abort();
    screen.end();
    redis.disconnect();
  }
}

function isSettled({ delivered, scheduled, backlog }: Figures): boolean {
  const { inbox, records, oldest } = backlog;
  return delivered === scheduled && inbox === 0 && records === 0 && oldest === 0;
}

function pendingWork({ delivered, scheduled, backlog }: Figures): string {
  return [
    `${scheduled - delivered} events to be accepted`,
    `${backlog.inbox ?? "an unknown number of"} events in the inbox`,
    `${backlog.records ?? "an unknown number of"} records`,
  ].join(", ");
}

/** Explains the compressed clock. */
export function explainClock({ hourMs, burstMs }: Clock): string {
  const toScale = Math.round((BURST_WINDOW_MS * hourMs) / HOUR_MS);
  const limits =
    `An hour of the CRM and of the quota takes ${hourMs / 1000} s here: ` +
    `${REQUESTS_PER_HOUR} requests per hour, ${BURST_REQUESTS} per ${burstMs} ms.`;
  if (burstMs === toScale) return limits;
  return `${limits}\n(To scale, ${burstMs} ms would be ${toScale} ms, less than the jitter of a busy machine. The longer window is stricter.)`;
}
