/**
 * Spends permits on records: first the permit, then the job, so that no job is ever held while
 * it waits for quota. One loop per process fetches; up to SYNC_CONCURRENCY requests run at once.
 */
import { randomUUID } from "node:crypto";
import { Worker, type Job } from "bullmq";
import type { Permit } from "../src/quota/permit.ts";
import type { Lane } from "../src/sync/lane.ts";
import { SYNC_QUEUE, type Pointer } from "../src/state/pointer-queue.ts";
import { runRelation } from "./run-relation.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often an idle loop looks for retries that have become due, ms; adds wake it at once. */
const IDLE_LOOK_MS = 1000;

/** How often a process that may not send looks whether it may again, ms. */
const CLOSED_LOOK_MS = 1000;

const MAX_STALLED = 5;

/** How often jobs of workers that died are looked for, ms; one found twice is taken back. */
const STALLED_LOOK_MS = 5000;

/** A job is held this much longer than its request may take. */
const LOCK_MARGIN_MS = 15_000;

export interface Sync {
  /** Stops fetching at once and waits for the requests under way, which have their own timeout. */
  close(): Promise<void>;
}

/** A permit, and when it was asked for and had, ms since the epoch. */
interface Granted {
  readonly permit: Permit;
  readonly askedAt: number;
  readonly grantedAt: number;
}

export function startSync(runtime: Runtime, access: ServiceAccess): Sync {
  const { config, demand, log, metrics, pointers, throttle, tracing, jobNotifier } = runtime;
  const stop = new AbortController();
  const running = new Set<Promise<void>>();
  let freed: (() => void) | undefined;

  const worker = new Worker<Pointer>(SYNC_QUEUE, null, {
    connection: runtime.redis,
    prefix: config.QUEUE_PREFIX,
    autorun: false,
    lockDuration: config.SERVICE_TIMEOUT_MS + LOCK_MARGIN_MS,
    skipLockRenewal: true,
    stalledInterval: STALLED_LOOK_MS,
    maxStalledCount: MAX_STALLED,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on("error", (error) => {
    throttle("sync.error", (held) => log.warn({ err: error, held }, "sync.worker_error"));
  });
  worker.on("stalled", () => metrics.stalled.inc());

  /** The record that deserves the permit most goes first; who that is, the demand says. */
  async function bringForward(): Promise<void> {
    const crmCode = await demand.highest();
    if (crmCode !== undefined && !(await pointers.bringForward(crmCode))) {
      await demand.remove(crmCode);
    }
  }

  async function fetchAndRun({ permit, askedAt, grantedAt }: Granted): Promise<void> {
    const token = randomUUID();
    if (permit.lane === "live") await bringForward();
    const job = (await worker.getNextJob(token, { block: false })) as Job<Pointer> | undefined;
    if (job === undefined) return permit.cancel();
    const { metadata: carried } = job.opts.telemetry ?? {};
    // The record itself waited no longer than since it was pointed at.
    const startedAt = Math.min(grantedAt, Math.max(askedAt, job.timestamp));
    const run = tracing
      .span("process sync", { carried, startedAt }, () => {
        tracing.past("permit", startedAt, grantedAt);
        return runRelation(job, token, permit, runtime, access);
      })
      .finally(() => {
        running.delete(run);
        freed?.();
      });
    running.add(run);
    await demand.remove(job.data.crmCode);
  }

  async function turn(): Promise<void> {
    const { heard } = jobNotifier;
    if (!(await access.isReady())) return jobNotifier.wait(CLOSED_LOOK_MS, stop.signal);
    const due = await pointers.due(Date.now());
    const lane = due.live > 0 ? "live" : due.bulk > 0 ? "bulk" : undefined;
    if (lane === undefined) return jobNotifier.wait(IDLE_LOOK_MS, stop.signal, heard);
    if (running.size >= config.SYNC_CONCURRENCY) {
      return new Promise((resolve) => {
        freed = resolve;
      });
    }
    const granted = await permitFor(lane);
    if (granted === undefined) return undefined;
    const { permit } = granted;
    try {
      // Asked after the wait, which may have been long: much may have happened meanwhile.
      if (await access.mayTry()) return await fetchAndRun(granted);
      permit.cancel();
      return await jobNotifier.pause(CLOSED_LOOK_MS, stop.signal);
    } catch (error) {
      permit.cancel();
      throw error;
    }
  }

  /** Undefined when it was not worth waiting on: stopping, or live work came while bulk waits. */
  async function permitFor(lane: Lane): Promise<Granted | undefined> {
    const givenUp = new AbortController();
    const giveUp = () => givenUp.abort();
    stop.signal.addEventListener("abort", giveUp, { once: true });
    const stopListening =
      lane === "bulk" ? jobNotifier.listen((woken) => woken === "live" && giveUp()) : () => {};
    const started = performance.now();
    const askedAt = Date.now();
    try {
      const permit = await access.quota.acquire(lane, givenUp.signal);
      metrics.permitWait.observe({ lane }, (performance.now() - started) / 1000);
      return { permit, askedAt, grantedAt: Date.now() };
    } catch (error) {
      if (givenUp.signal.aborted) return undefined;
      throw error;
    } finally {
      stop.signal.removeEventListener("abort", giveUp);
      stopListening();
    }
  }

  async function loop(): Promise<void> {
    await worker.waitUntilReady();
    await worker.startStalledCheckTimer();
    while (!stop.signal.aborted) {
      try {
        await turn();
      } catch (error) {
        throttle("sync.turn", (held) => log.warn({ err: error, held }, "sync.loop_error"));
        await jobNotifier.wait(CLOSED_LOOK_MS, stop.signal);
      }
    }
  }

  const looping = loop();
  return {
    async close() {
      stop.abort();
      freed?.();
      await looping;
      await Promise.allSettled(running);
      await worker.close();
    },
  };
}
