/**
 * Spends permits on records: a permit first, then the first record of the line, so no record is taken while it
 * waits for quota. One loop per process; up to SYNC_CONCURRENCY requests run at once.
 */
import type { Permit } from "../src/core/quota/permit.ts";
import type { Part } from "../src/base/shutdown.ts";
import type { Lane } from "../src/core/event/lane.ts";
import { HOLD_MARGIN_MS, runRelation, type RunParts } from "./run-relation.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

/** What the loop uses, and each run that it starts. */
export type SyncParts = RunParts &
  Uses<"config" | "jobNotifier" | "line" | "metrics" | "outage" | "rarely">;

/** How often an idle loop, or one that waits for a bulk permit, looks for retries that are due, ms. */
const IDLE_CHECK_MS = 1000;

/** How often a process that may not send checks whether it may again, ms. */
const STOPPED_CHECK_MS = 1000;

export const startSync = (parts: SyncParts, access: ServiceAccess): Part =>
  new SyncLoop(parts, access);

class SyncLoop implements Part {
  readonly #parts: SyncParts;
  readonly #access: ServiceAccess;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #looping: Promise<void>;
  /** Resolves the wait for a free place among the concurrent requests. */
  #onFree: (() => void) | undefined;

  constructor(parts: SyncParts, access: ServiceAccess) {
    this.#parts = parts;
    this.#access = access;
    this.#looping = this.#loop();
  }

  /** Takes no more records, and waits for the requests under way, which have their own timeout. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#onFree?.();
    await this.#looping;
    await Promise.allSettled(this.#running);
  }

  async #loop(): Promise<void> {
    const { jobNotifier, rarely } = this.#parts;
    while (!this.#stop.signal.aborted) {
      try {
        await this.#step();
      } catch (error) {
        rarely.warn({ err: error }, "sync.loop_error");
        await jobNotifier.pause(STOPPED_CHECK_MS, this.#stop.signal);
      }
    }
  }

  /** One pass of the loop: waits for work, then for a permit, then starts one record. */
  async #step(): Promise<void> {
    const { config, jobNotifier, line, outage } = this.#parts;
    const { signal } = this.#stop;
    // Read before the line is: a change that is staged after that ends the wait.
    const { heard } = jobNotifier;
    // Together, because Redis may be far away.
    const [isReady, due] = await Promise.all([this.#access.isReady(), line.due()]);
    if (!isReady) return jobNotifier.pause(STOPPED_CHECK_MS, signal);
    const lane = laneOf(due);
    if (lane === undefined) return jobNotifier.wait(IDLE_CHECK_MS, signal, heard);
    if (this.#running.size >= config.SYNC_CONCURRENCY) return this.#freePlace();
    const askedAt = Date.now();
    const permit = await this.#acquire(lane, signal);
    if (permit === undefined) return;
    // Checked after the wait, which may have been long.
    const mayTry = await this.#access.mayTry().catch(() => false);
    const crmCode = mayTry ? await this.#next(permit) : undefined;
    if (crmCode !== undefined) {
      this.#start(crmCode, permit, askedAt);
      // It was the only one.
      if (due.live + due.bulk <= 1) await jobNotifier.wait(IDLE_CHECK_MS, signal, heard);
      return;
    }
    permit.cancel();
    if (mayTry) await outage.notTried();
    else await jobNotifier.pause(STOPPED_CHECK_MS, signal);
  }

  /** Another process may have been faster. An error leaves the record in the line: it is due again after the hold. */
  async #next(permit: Permit): Promise<string | undefined> {
    const { config, line, outage } = this.#parts;
    // The one try of an outage takes a record by chance: the oldest ones may be those that fail each time.
    const which = outage.isTrying ? "any" : permit.lane;
    try {
      return await line.next(which, config.SERVICE_TIMEOUT_MS + HOLD_MARGIN_MS);
    } catch (error) {
      permit.cancel();
      throw error;
    }
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
  async #acquire(lane: Lane, signal: AbortSignal): Promise<Permit | undefined> {
    const { jobNotifier, metrics } = this.#parts;
    const givenUp = new AbortController();
    const giveUp = () => givenUp.abort();
    signal.addEventListener("abort", giveUp, { once: true });
    const unlisten =
      lane === "bulk" ? jobNotifier.listen((heard) => heard !== "bulk" && giveUp()) : () => {};
    // No message tells that a live retry is due.
    const late = lane === "bulk" ? setTimeout(giveUp, IDLE_CHECK_MS) : undefined;
    const started = performance.now();
    try {
      const permit = await this.#access.quota.acquire(lane, givenUp.signal);
      metrics.permitWait.observe({ lane }, (performance.now() - started) / 1000);
      return permit;
    } catch (error) {
      if (givenUp.signal.aborted) return undefined;
      throw error;
    } finally {
      clearTimeout(late);
      signal.removeEventListener("abort", giveUp);
      unlisten();
    }
  }

  /** Runs one record in the background. */
  #start(crmCode: string, permit: Permit, askedAt: number): void {
    const run = runRelation(crmCode, { permit, askedAt }, this.#parts, this.#access).finally(() => {
      this.#running.delete(run);
      this.#onFree?.();
    });
    this.#running.add(run);
  }
}

/** The lane of the next record; undefined when none may be sent now. */
const laneOf = ({ live, bulk }: Readonly<Record<Lane, number>>): Lane | undefined =>
  live > 0 ? "live" : bulk > 0 ? "bulk" : undefined;
