/**
 * Spends permits on records. The permit comes first, then the job: no job is active while it waits
 * for quota. One loop per process; up to SYNC_CONCURRENCY requests run at once.
 */
import { randomUUID } from "node:crypto";
import { Worker, type Job } from "bullmq";
import type { Permit } from "../src/quota/permit.ts";
import { SYNC_QUEUE, type Pointer } from "../src/state/pointer-queue.ts";
import type { Lane } from "../src/sync/lane.ts";
import type { Next } from "../src/sync/run-end.ts";
import { runRelation } from "./run-relation.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often an idle loop checks for retries that have become due, ms; added jobs wake it at once. */
const IDLE_CHECK_MS = 1000;

/** How often a process that may not send checks whether it may again, ms. */
const STOPPED_CHECK_MS = 1000;

/** Records of the order that one permit asks for; those that run or are gone leave it for a while. */
const HIGHEST_TRIES = 20;

const MAX_STALLED = 5;

/** How often jobs of dead workers are looked for, ms; one found twice in a row is taken back. */
const STALLED_CHECK_MS = 5000;

/** A job is locked this much longer than its request may take. */
const LOCK_MARGIN_MS = 15_000;

/** A permit, when it was requested and when it was granted, ms since the epoch. */
interface GrantedPermit {
  readonly permit: Permit;
  readonly requestedAt: number;
  readonly grantedAt: number;
}

export function startSync(runtime: Runtime, access: ServiceAccess): SyncLoop {
  const loop = new SyncLoop(runtime, access);
  loop.start();
  return loop;
}

export class SyncLoop {
  readonly #runtime: Runtime;
  readonly #access: ServiceAccess;
  readonly #worker: Worker<Pointer>;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #looping: Promise<void> = Promise.resolve();
  /** Resolves the wait for a free place among the concurrent requests. */
  #onFree: (() => void) | undefined;

  constructor(runtime: Runtime, access: ServiceAccess) {
    this.#runtime = runtime;
    this.#access = access;
    this.#worker = createWorker(runtime);
  }

  start(): void {
    this.#looping = this.#loop();
  }

  /** Takes no more jobs, and waits for the requests under way, which have their own timeout. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#onFree?.();
    await this.#looping;
    await Promise.allSettled(this.#running);
    await this.#worker.close();
  }

  async #loop(): Promise<void> {
    const { jobNotifier, log, throttle } = this.#runtime;
    await this.#worker.waitUntilReady();
    await this.#worker.startStalledCheckTimer();
    while (!this.#stop.signal.aborted) {
      try {
        await this.#step();
      } catch (error) {
        throttle("sync.loop", (suppressed) =>
          log.warn({ err: error, suppressed }, "sync.loop_error"),
        );
        await jobNotifier.wait(STOPPED_CHECK_MS, this.#stop.signal);
      }
    }
  }

  /** One pass of the loop: waits for work, then for a permit, then starts one record. */
  async #step(): Promise<void> {
    const { config, jobNotifier, pointers } = this.#runtime;
    const { signal } = this.#stop;
    // Read before the queue is: a job that is added after that ends the wait.
    const { heard } = jobNotifier;
    // Together, because Redis may be far away.
    const [ready, due] = await Promise.all([this.#access.isReady(), pointers.due(Date.now())]);
    if (!ready) return jobNotifier.wait(STOPPED_CHECK_MS, signal);
    const lane = due.live > 0 ? "live" : due.bulk > 0 ? "bulk" : undefined;
    if (lane === undefined) return jobNotifier.wait(IDLE_CHECK_MS, signal, heard);
    if (this.#running.size >= config.SYNC_CONCURRENCY) return this.#freePlace();
    const granted = await this.#acquire(lane);
    if (granted === undefined) return undefined;
    try {
      // Checked after the wait, which may have been long.
      const [may] = await Promise.all([
        this.#access.mayTry(),
        granted.permit.lane === "live" ? this.#bringHighestForward() : undefined,
      ]);
      if (may) return await this.#startNext(granted);
      granted.permit.cancel();
      return await jobNotifier.pause(STOPPED_CHECK_MS, signal);
    } catch (error) {
      granted.permit.cancel();
      throw error;
    }
  }

  #freePlace(): Promise<void> {
    return new Promise((resolve) => {
      this.#onFree = resolve;
    });
  }

  /**
   * Undefined when waiting is no longer useful: on shutdown; of a bulk permit, when live work came or
   * the lane was paused.
   */
  async #acquire(lane: Lane): Promise<GrantedPermit | undefined> {
    const { jobNotifier, metrics } = this.#runtime;
    const givenUp = new AbortController();
    const giveUp = () => givenUp.abort();
    this.#stop.signal.addEventListener("abort", giveUp, { once: true });
    const unlisten =
      lane === "bulk" ? jobNotifier.listen((heard) => heard !== "bulk" && giveUp()) : () => {};
    const started = performance.now();
    const requestedAt = Date.now();
    try {
      const permit = await this.#access.quota.acquire(lane, givenUp.signal);
      metrics.permitWait.observe({ lane }, (performance.now() - started) / 1000);
      return { permit, requestedAt, grantedAt: Date.now() };
    } catch (error) {
      if (givenUp.signal.aborted) return undefined;
      throw error;
    } finally {
      this.#stop.signal.removeEventListener("abort", giveUp);
      unlisten();
    }
  }

  /** Takes the next job and runs it in the background; without a job the permit is given back. */
  async #startNext({ permit, requestedAt, grantedAt }: GrantedPermit): Promise<void> {
    const { jobNotifier, pointers, tracing } = this.#runtime;
    const token = randomUUID();
    const job = (await this.#worker.getNextJob(token, { block: false })) as
      | Job<Pointer>
      | undefined;
    if (job === undefined) {
      permit.cancel();
      // Else the loop would ask for permits without a pause, for as long as the queue is paused.
      if (await pointers.queue.isPaused())
        await jobNotifier.pause(STOPPED_CHECK_MS, this.#stop.signal);
      return;
    }
    const { metadata: carried } = job.opts.telemetry ?? {};
    // The record itself waited only since its job was added.
    const startedAt = Math.min(grantedAt, Math.max(requestedAt, job.timestamp));
    // The sweep gives a place to a record that loses its own to an error of Redis.
    const taken = this.#runtime.demand.take(job.data.crmCode).catch(() => undefined);
    const run = tracing
      .span("process sync", { carried, startedAt }, async () => {
        tracing.past("permit", startedAt, grantedAt);
        const next = await runRelation(job, token, permit, this.#runtime, this.#access);
        void this.#runtime.stateAge.count().catch(() => {});
        await this.#keepPlace(job, await taken, next).catch(() => {});
      })
      .finally(() => {
        this.#running.delete(run);
        this.#onFree?.();
      });
    this.#running.add(run);
    // The next record is chosen without this one.
    await taken;
  }

  /** A record whose run did not end its change keeps its place in the order of permits. */
  async #keepPlace(job: Job<Pointer>, rank: string | undefined, next?: Next): Promise<void> {
    const { demand, pointers } = this.#runtime;
    if (next === undefined || next.kind === "complete" || next.kind === "parked") return;
    const delayMs = next.kind === "later" ? next.at - Date.now() : 0;
    if (rank !== undefined) await demand.place({ crmCode: job.data.crmCode, rank }, delayMs);
    if (next.kind === "later") await pointers.retryBeforeBulk(job);
  }

  /** Serves the record with the highest demand first (see demand.ts). */
  async #bringHighestForward(): Promise<void> {
    const { demand, pointers } = this.#runtime;
    for (let tries = 0; tries < HIGHEST_TRIES; tries += 1) {
      const place = await demand.highest();
      if (place === undefined) return;
      const brought = await pointers.bringForward(place.crmCode);
      if (brought.kind === "first") return;
      if (brought.kind === "gone") await demand.take(place.crmCode);
      else await demand.place(place, brought.afterMs);
    }
  }
}

function createWorker({ config, log, metrics, redis, throttle }: Runtime): Worker<Pointer> {
  const worker = new Worker<Pointer>(SYNC_QUEUE, null, {
    connection: redis,
    prefix: config.QUEUE_PREFIX,
    autorun: false,
    lockDuration: config.SERVICE_TIMEOUT_MS + LOCK_MARGIN_MS,
    skipLockRenewal: true,
    stalledInterval: STALLED_CHECK_MS,
    maxStalledCount: MAX_STALLED,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on("error", (error) => {
    throttle("sync.error", (suppressed) =>
      log.warn({ err: error, suppressed }, "sync.worker_error"),
    );
  });
  worker.on("stalled", () => metrics.stalled.inc());
  return worker;
}
