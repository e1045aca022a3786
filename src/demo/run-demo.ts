/** Runs the hour on the started components and makes the verdict. */
import { setTimeout as delay } from "node:timers/promises";
import { Inbox } from "../event/inbox.ts";
import { openRedis } from "../ops/open-redis.ts";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../service-spec/limits.ts";
import { compare } from "./compare.ts";
import { DaemonMetrics } from "./daemon-metrics.ts";
import { NO_COUNTS, readBacklog } from "./figures.ts";
import type { Figures } from "./figures.ts";
import { planHour } from "./hour.ts";
import type { Hour } from "./hour.ts";
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

export class Demo {
  readonly #options: DemoOptions;
  readonly #components: Components;
  readonly #screen: Screen;
  readonly #signal: AbortSignal;
  readonly #metrics = new DaemonMetrics();
  readonly #hour: Hour;
  readonly #startAt: number;
  #service = NO_COUNTS;
  #delivered = 0;
  #watchedPid: number | undefined;

  constructor(options: DemoOptions, components: Components, screen: Screen, signal: AbortSignal) {
    this.#options = options;
    this.#components = components;
    this.#screen = screen;
    this.#signal = signal;
    this.#startAt = Date.now();
    this.#hour = planHour({
      ...options,
      lengthMs: options.seconds * 1000,
      startAt: this.#startAt,
      source: "/crm/demo",
    });
  }

  async run(): Promise<Verdict> {
    const { daemonUrl, ingestToken } = this.#components;
    const redis = openRedis(this.#components.redis, { maxRetriesPerRequest: null });
    redis.on("error", () => {}); // ioredis reconnects; the jobs wait until then
    const inbox = new Inbox(redis, this.#components.redis.prefix);
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#signal, ended.signal]);
    const producing = produce({
      deliveries: this.#hour.deliveries,
      startAt: this.#startAt,
      inbox,
      eventsUrl: `${daemonUrl}/events`,
      token: ingestToken,
      signal,
      onDelivered: (events) => void (this.#delivered += events),
    });
    try {
      await Promise.race([this.#components.failed, Promise.all([producing, this.#watch(signal)])]);
      return await this.#makeVerdict();
    } finally {
      ended.abort();
      this.#screen.end();
      redis.disconnect();
    }
  }

  /** Shows the figures until every event is delivered and nothing waits. */
  async #watch(signal: AbortSignal): Promise<void> {
    let settledPolls = 0;
    let last = "";
    let progressAt = performance.now();
    while (settledPolls < SETTLED_POLLS) {
      await this.#poll();
      const figures = this.#figures();
      this.#screen.show(figures);
      settledPolls = this.#isSettled(figures) ? settledPolls + 1 : 0;
      const state = JSON.stringify([figures.delivered, figures.service, figures.backlog.records]);
      if (state !== last) progressAt = performance.now();
      last = state;
      if (performance.now() - progressAt > this.#options.seconds * 1000 + NO_PROGRESS_MS) {
        this.#screen.say(`no progress any more; still waiting for ${pendingWork(figures)}`);
        return;
      }
      await delay(POLL_MS, undefined, { signal });
    }
  }

  async #poll(): Promise<void> {
    const { daemon, daemonUrl, service } = this.#components;
    if (daemon.pid !== this.#watchedPid) this.#metrics.ended();
    this.#watchedPid = daemon.pid;
    const [metrics, counts] = await Promise.allSettled([
      fetch(`${daemonUrl}/metrics`, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) }).then(
        async (response) => response.text(),
      ),
      readCounts(service),
    ]);
    // A reading of a process that has exited meanwhile must not overwrite its last one.
    if (metrics.status === "fulfilled" && daemon.pid === this.#watchedPid) {
      this.#metrics.update(metrics.value);
    }
    if (counts.status === "fulfilled") this.#service = counts.value;
  }

  #figures(): Figures {
    const metrics = this.#metrics;
    const changes = (outcome: string): number => metrics.count("changes_total", { outcome });
    const fresh = (share: number): number | undefined =>
      metrics.quantile("change_freshness_seconds", share, { lane: "live" });
    const { daemon } = this.#components;
    return {
      progress: Math.min(1, (Date.now() - this.#startAt) / (this.#options.seconds * 1000)),
      scheduled: this.#hour.deliveries.length,
      delivered: this.#delivered,
      sentTwice: this.#hour.deliveries.length - this.#hour.events,
      coalesced: changes("coalesced"),
      unchanged: changes("unchanged"),
      superseded: changes("superseded"),
      deadLetters: metrics.gauge("dead_letters"),
      service: this.#service,
      quota: {
        limit: metrics.gauge("quota_limit") ?? REQUESTS_PER_HOUR,
        remaining: metrics.gauge("quota_remaining"),
      },
      freshness: { p50: fresh(0.5), p99: fresh(0.99) },
      backlog: readBacklog(metrics),
      daemon: { pid: daemon.pid, restarts: daemon.restarts },
    };
  }

  #isSettled({ delivered, scheduled, backlog }: Figures): boolean {
    const { inbox, records, oldest } = backlog;
    return delivered === scheduled && inbox === 0 && records === 0 && oldest === 0;
  }

  async #makeVerdict(): Promise<Verdict> {
    const figures = this.#figures();
    const relations = await readRelations(this.#components.service, this.#signal);
    const crmCodes = relations.map(({ crmCode }) => String(crmCode));
    const unchangedWrites = await countUnchangedWrites(this.#components.service, crmCodes);
    const { created, updated } = figures.service;
    return {
      ...this.#options,
      settled: this.#isSettled(figures),
      pending: pendingWork(figures),
      differences: compare(this.#hour.expected, relations),
      relations: relations.length,
      terminated: relations.filter(({ relationStatus }) => relationStatus === "terminated").length,
      expectedDeadLetters: this.#hour.expectedDeadLetters,
      netChanges: created + updated - unchangedWrites,
      figures,
    };
  }
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
