/**
 * Spends permits on records. The permit comes first, then the job: no job is active while it waits
 * for quota. One loop per process; up to SYNC_CONCURRENCY requests run at once.
 */
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Job } from "bullmq";
import type { Part } from "../src/ops/shutdown.ts";
import { SYNC_QUEUE, isPointer, type FirstJob, type Pointer } from "../src/state/pointer-queue.ts";
import type { Lane } from "../src/sync/lane.ts";
import type { Next } from "../src/sync/run-end.ts";
import { REST_EVERY_MS } from "./poll.ts";
import { openQueueWorker, type QueueWorker } from "./queue-worker.ts";
import { runRelation, takeEarly } from "./run-relation.ts";
import type { Runtime } from "./runtime.ts";
import { retryNow, type ServiceAccess } from "./service-access.ts";
import { SparePermit, type GrantedPermit } from "./spare-permit.ts";

/**
 * How often a loop that is idle, or waits for a permit for bulk, checks for retries that have become due, ms;
 * added jobs wake it at once. No retry waits while the process rests.
 */
const IDLE_CHECK_MS = 1000;

/** How often a process that may not send checks whether it may again, ms. */
const STOPPED_CHECK_MS = 1000;

/** Most records that one permit looks at: each that cannot run now leaves the order for a while. */
const HIGHEST_TRIES = 20;

/** A record that is unfit for an outage's try is not looked at again before this, ms. */
const UNFIT_MS = 1000;

/** After a longer wait for a permit, what was checked before the wait is checked again, ms. */
const LONG_WAIT_MS = 50;

const STALLED_CHECK_MS = 5000;

/** A job is locked this much longer than its request may take, ms. */
const LOCK_MARGIN_MS = 15_000;

export const startSync = (runtime: Runtime, access: ServiceAccess): Part =>
  new SyncLoop(runtime, access);

class SyncLoop implements Part {
  readonly #runtime: Runtime;
  readonly #access: ServiceAccess;
  readonly #worker: QueueWorker<Pointer>["worker"];
  readonly #checks: QueueWorker<Pointer>["checks"];
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #looping: Promise<void>;
  readonly #spare = new SparePermit((signal) => this.#acquire("live", signal));
  /** Whether the loop waits because there is no job. */
  #isIdle = false;
  /** Resolves the wait for a free place among the concurrent requests. */
  #onFree: (() => void) | undefined;

  constructor(runtime: Runtime, access: ServiceAccess) {
    this.#runtime = runtime;
    this.#access = access;
    const { checks, worker } = openWorker(runtime);
    this.#checks = checks;
    this.#worker = worker;
    this.#looping = this.#loop();
  }

  /** Takes no more jobs, and waits for the requests under way, which have their own timeout. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#onFree?.();
    await this.#looping;
    this.#spare.drop();
    await Promise.allSettled(this.#running);
    await this.#checks.close();
    await this.#worker.close();
  }

  async #loop(): Promise<void> {
    const { jobNotifier, rarely, rest } = this.#runtime;
    await this.#worker.waitUntilReady();
    const unlisten = rest.onExpected(() => {
      if (this.#isIdle) this.#spare.expect();
    });
    while (!this.#stop.signal.aborted) {
      try {
        await this.#step();
      } catch (error) {
        rarely.warn({ err: error }, "sync.loop_error");
        await jobNotifier.wait(STOPPED_CHECK_MS, this.#stop.signal);
      }
    }
    unlisten();
  }

  /** One pass of the loop: waits for work, then for a permit, then starts one record. */
  async #step(): Promise<void> {
    const { config, jobNotifier, pointers, rest } = this.#runtime;
    const { signal } = this.#stop;
    // Read before the queue is: a job that is added after that ends the wait.
    const { heard } = jobNotifier;
    if (rest.isOn && laneOf(await pointers.due(Date.now())) === undefined) {
      return this.#idle(REST_EVERY_MS, heard);
    }
    // Together, because Redis may be far away.
    const [ready, due] = await Promise.all([this.#access.isReady(), pointers.due(Date.now())]);
    if (!ready) return jobNotifier.wait(STOPPED_CHECK_MS, signal);
    const lane = laneOf(due);
    if (lane === undefined) {
      await this.#retryForTry();
      return this.#idle(IDLE_CHECK_MS, heard);
    }
    if (this.#running.size >= config.SYNC_CONCURRENCY) return this.#freePlace();
    const asked = performance.now();
    const early = this.#prepare(lane, () => this.#access.isUntroubled()).catch(() => undefined);
    const granted = await this.#acquireNow(lane);
    this.#spare.used(performance.now() - asked);
    if (granted === undefined) return undefined;
    try {
      const isLate = performance.now() - asked > LONG_WAIT_MS;
      const now =
        (isLate ? undefined : await early) ??
        (await this.#prepare(lane, () => this.#access.mayTry(), await this.#access.unfitForTry()));
      if (now !== undefined) return await this.#startNext(granted, now.first);
      granted.permit.cancel();
      return await jobNotifier.pause(STOPPED_CHECK_MS, signal);
    } catch (error) {
      granted.permit.cancel();
      throw error;
    }
  }

  /** In an outage in which all that waits has failed, the next retry is the try that the pause allows. */
  async #retryForTry(): Promise<void> {
    const { clock, outage, pointers } = this.#runtime;
    if (await outage.isTryDue(clock.now()))
      await retryNow(this.#runtime, await pointers.nextRetry());
  }

  /** @param heard notifications before the queue was read. */
  async #idle(ms: number, heard: number): Promise<void> {
    this.#isIdle = true;
    await this.#runtime.jobNotifier.wait(ms, this.#stop.signal, heard);
    this.#isIdle = false;
  }

  /** The permit that was requested when the event arrived, if there is one. */
  async #acquireNow(lane: Lane): Promise<GrantedPermit | undefined> {
    const spare = lane === "live" ? await this.#spare.take() : undefined;
    return spare ?? this.#acquire(lane, this.#stop.signal);
  }

  /**
   * Puts the job of the record with the highest demand first. In an outage, the one try must find a record that the
   * service accepts. Many records that it cannot handle may be the oldest ones, or the newest. So half of the tries
   * take the newest fit record and the others take any fit record by chance. In the lane bulk, where jobs keep their
   * order otherwise, each try of an outage takes any fit record by chance.
   * @returns that job, if it is known; undefined when no request may be sent.
   */
  async #prepare(
    lane: Lane,
    may: () => Promise<boolean>,
    unfit: ReadonlySet<string> = new Set(),
  ): Promise<{ readonly first: FirstJob | undefined } | undefined> {
    const { pointers } = this.#runtime;
    const bring = async () => {
      if (lane === "live") return this.#bringForward(unfit);
      if (unfit.size > 0) await pointers.bringBulkForward(unfit);
      return undefined;
    };
    const [isFine, first] = await Promise.all([may(), bring()]);
    return isFine ? { first } : undefined;
  }

  #freePlace(): Promise<void> {
    return new Promise((resolve) => {
      this.#onFree = resolve;
    });
  }

  /**
   * Waits for a permit. @returns undefined when the wait is no longer useful: the signal was aborted, or,
   * for a bulk permit, live work came or the lane was paused.
   */
  async #acquire(lane: Lane, signal: AbortSignal): Promise<GrantedPermit | undefined> {
    const { jobNotifier, metrics } = this.#runtime;
    const givenUp = new AbortController();
    const giveUp = () => givenUp.abort();
    signal.addEventListener("abort", giveUp, { once: true });
    const ended = new AbortController();
    const unlisten =
      lane === "bulk" ? jobNotifier.listen((heard) => heard !== "bulk" && giveUp()) : () => {};
    if (lane === "bulk") void this.#liveIsDue(ended.signal).then(giveUp, giveUp);
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
      signal.removeEventListener("abort", giveUp);
      unlisten();
      ended.abort();
    }
  }

  /** Resolves when a live change may be sent. It looks again and again: no message tells that a retry is due. */
  async #liveIsDue(signal: AbortSignal): Promise<void> {
    const { jobNotifier, pointers } = this.#runtime;
    let live = 0;
    while (!signal.aborted && live === 0) {
      await jobNotifier.pause(IDLE_CHECK_MS, signal);
      if (!signal.aborted) ({ live } = await pointers.due(Date.now()));
    }
  }

  /** Takes the next job and runs it in the background; without a job the permit is given back. */
  async #startNext(
    { permit, requestedAt, grantedAt }: GrantedPermit,
    first: FirstJob | undefined,
  ): Promise<void> {
    const { jobNotifier, pointers, tracing } = this.#runtime;
    const token = randomUUID();
    // BullMQ's worker asks for no job until a rate limit would have ended, even if it was removed: forget it.
    (this.#worker as unknown as { limitUntil: number }).limitUntil = 0;
    const getting = this.#worker.getNextJob(token, { block: false });
    getting.catch(() => {}); // awaited below
    // After this, BullMQ has sent its request for the job: `takeEarly` must come behind it.
    await nextTurn();
    const early = first && takeEarly(this.#runtime, first, token);
    const job = (await getting) as Job<Pointer> | undefined;
    if (job === undefined) {
      permit.cancel();
      await this.#runtime.outage.notTried();
      // While somebody holds the queue back, the loop would ask for one permit after the other.
      if (await pointers.isHeldBack()) await jobNotifier.pause(STOPPED_CHECK_MS, this.#stop.signal);
      return;
    }
    // Another process has taken the live job. A permit for live changes is not spent on a bulk change.
    if (permit.lane === "live" && pointers.isBulk(job)) {
      permit.cancel();
      await pointers.park(job, token);
      await this.#runtime.outage.notTried();
      return;
    }
    const { metadata: carried } = job.opts.telemetry ?? {};
    // The record has waited for a permit only since its job was added.
    const startedAt = Math.min(grantedAt, Math.max(requestedAt, job.timestamp));
    // The sweep gives a place to a record that loses its own to an error of Redis.
    const taken = isPointer(job.data)
      ? this.#runtime.demand.take(job.data.crmCode).catch(() => undefined)
      : undefined;
    const run = tracing
      .span("process sync", { carried, startedAt }, async () => {
        tracing.past("permit", startedAt, grantedAt);
        const next = await runRelation(job, token, permit, this.#runtime, this.#access, early);
        void this.#runtime.stateAge.count().catch(() => {});
        await this.#keepPlace(job, await taken, next).catch(() => {});
        if (next?.kind === "again") jobNotifier.wake(permit.lane);
      })
      .finally(() => {
        this.#running.delete(run);
        this.#onFree?.();
      });
    this.#running.add(run);
    // This record must have left the order before the next one is chosen.
    await taken;
  }

  /** A record whose run did not end its change keeps its place in the order of permits. */
  async #keepPlace(job: Job<Pointer>, rank: string | undefined, next?: Next): Promise<void> {
    const { demand, pointers } = this.#runtime;
    if (next === undefined || next.kind === "complete" || next.kind === "parked") return;
    const delayMs = next.kind === "later" ? next.at - Date.now() : 0;
    if (rank !== undefined) await demand.place({ crmCode: job.data.crmCode, rank }, delayMs);
    if (next.kind === "later") await pointers.retryBeforeBulk(job.data.crmCode);
  }

  /**
   * Puts the job of the record that is to be served first (demand.ts; in an outage, see #prepare).
   * @returns that job, if it was the first one already
   */
  async #bringForward(unfit: ReadonlySet<string>): Promise<FirstJob | undefined> {
    const { demand, pointers } = this.#runtime;
    for (let tries = 0; tries < HIGHEST_TRIES; tries += 1) {
      const [place, first] = await Promise.all([
        unfit.size === 0 ? demand.highest() : Math.random() < 0.5 ? demand.lowest() : demand.any(),
        pointers.first(),
      ]);
      if (place === undefined) return undefined;
      if (unfit.has(place.crmCode)) {
        await demand.place(place, UNFIT_MS);
        continue;
      }
      if (place.crmCode === first?.crmCode) return first;
      const brought = await pointers.bringForward(place.crmCode);
      if (brought.kind === "first") return undefined;
      if (brought.kind === "gone") {
        const { crmCode } = place;
        // Another process may have added it in between.
        const hasJob = (await pointers.restore(crmCode)) || (await pointers.hasJob(crmCode));
        if (!hasJob) await demand.take(crmCode);
      } else await demand.place(place, brought.afterMs);
    }
    return undefined;
  }
}

/** The lane of the next job; undefined when none may run now. */
const laneOf = ({ live, bulk }: Readonly<Record<Lane, number>>): Lane | undefined =>
  live > 0 ? "live" : bulk > 0 ? "bulk" : undefined;

const openWorker = (runtime: Runtime): QueueWorker<Pointer> =>
  openQueueWorker<Pointer>(runtime, SYNC_QUEUE, null, {
    errorEvent: "sync.worker_error",
    autorun: false,
    lockDuration: runtime.config.SERVICE_TIMEOUT_MS + LOCK_MARGIN_MS,
    skipLockRenewal: true,
    stalledInterval: STALLED_CHECK_MS,
    removeOnFail: { count: 0 },
  });
