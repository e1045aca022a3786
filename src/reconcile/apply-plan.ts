/**
 * Carries out a plan: feeds its entries into the bulk lane, a few hundred at once, as the quota takes
 * them. A crash continues after the last entry that was noted; what is done twice changes nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../ops/user-error.ts";
import type { BulkPause, BulkPauses } from "../state/bulk-pause.ts";
import type { Reconciliations } from "../state/reconciliations.ts";
import type { StagedStates } from "../state/staged-state.ts";
import type { Accepted } from "../sync/accept-event.ts";
import {
  applyRecord,
  applyTermination,
  type AppliedEntry,
  type EntryOutcome,
  type EntryStores,
} from "./apply-entry.ts";
import { PlanCount } from "./plan-count.ts";
import { entriesOf, type OpenPlan, type PlanEntry } from "./plan-file.ts";
import type { PlanningView } from "./plan-record.ts";
import type { SnapshotEvent } from "./read-events.ts";

/** Most changes that wait in Redis at once. */
const MOST_WAITING = 300;

/** Entries between two notes of the progress. */
const BATCH = 50;

/** Entries of an earlier run that are looked up at once. */
const RECALLED = 500;

/** How often it is looked whether changes were sent, and whether the lane bulk is paused, ms. */
const CHECK_MS = 200;

export interface ApplyView {
  readonly stores: EntryStores & {
    readonly staged: Pick<StagedStates, "unsynced">;
    readonly reconciliations: Reconciliations;
    readonly bulkPauses: Pick<BulkPauses, "current">;
  };
  /** The records of the snapshot that the plan was made for. */
  readonly events: AsyncIterable<SnapshotEvent>;
  readonly view: Omit<PlanningView, "now">;
  readonly now: () => number;
  /** Adds pointer jobs for what was staged. */
  readonly point: (staged: readonly Accepted[]) => Promise<void>;
  readonly onProgress: (applied: Applied) => void;
  /** The lane bulk is paused, and the plan waits; undefined: it goes on. */
  readonly onPause: (pause: BulkPause | undefined) => void;
}

export interface Applied {
  /** Entries that were carried out, of this and earlier runs of the plan. */
  readonly done: number;
  /** Of this run. */
  readonly outcomes: Readonly<Record<EntryOutcome, number>>;
  /** Changes that are not on the service yet. */
  readonly waiting: number;
}

export async function applyPlan(plan: OpenPlan, apply: ApplyView): Promise<Applied> {
  const { id, snapshot } = plan.header;
  const progress = await apply.stores.reconciliations.progress(id);
  const skip = progress?.done ?? 0;
  const feed = new Feed(apply, plan, new PlanCount(plan, progress));
  const events = apply.events[Symbol.asyncIterator]();
  let number = 0;
  try {
    for await (const entry of entriesOf(plan)) {
      number += 1;
      if (number <= skip) {
        await feed.recall(entry, number === skip);
        continue;
      }
      await feed.begin();
      if (entry.position === null) {
        await feed.add(entry, await applyTermination(entry, snapshot.asOf, apply.stores));
        continue;
      }
      const event = await eventAt(events, entry.position);
      const view = { ...apply.view, now: apply.now() };
      await feed.add(entry, await applyRecord(entry, event.event, view, apply.stores));
    }
    await feed.end();
    return feed.applied;
  } finally {
    await events.return?.();
  }
}

async function eventAt(
  events: AsyncIterator<SnapshotEvent>,
  position: number,
): Promise<SnapshotEvent> {
  for (;;) {
    const next = await events.next();
    if (next.done === true) {
      throw new UserError("the snapshot has fewer records than the plan was made for");
    }
    if (next.value.position === position) return next.value;
  }
}

/** Keeps the number of changes that wait in Redis small. */
class Feed {
  readonly #apply: ApplyView;
  readonly #plan: OpenPlan;
  readonly #count: PlanCount;
  #batch: { entry: PlanEntry; applied: AppliedEntry }[] = [];
  /** What was staged, and not seen on the service. */
  #waiting: readonly PlanEntry[] = [];
  #recalled: PlanEntry[] = [];
  #isPaused = false;
  #hasBegun = false;

  constructor(apply: ApplyView, plan: OpenPlan, count: PlanCount) {
    this.#apply = apply;
    this.#plan = plan;
    this.#count = count;
  }

  get applied(): Applied {
    const { done, outcomes } = this.#count;
    return { done, outcomes: { ...outcomes }, waiting: this.#waiting.length };
  }

  /** Before the first entry of this run. */
  async begin(): Promise<void> {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    await this.#note("running");
    await this.#wait(MOST_WAITING - BATCH);
  }

  /** Takes note of an entry that an earlier run has staged: it may still wait. */
  async recall(entry: PlanEntry, isLast: boolean): Promise<void> {
    this.#count.skipped(entry);
    this.#recalled.push(entry);
    if (this.#recalled.length < RECALLED && !isLast) return;
    const codes = await this.#apply.stores.staged.unsynced(this.#recalled.map(({ code }) => code));
    const waiting = new Set(codes);
    this.#waiting = [...this.#waiting, ...this.#recalled.filter(({ code }) => waiting.has(code))];
    this.#recalled = [];
  }

  async add(entry: PlanEntry, applied: AppliedEntry): Promise<void> {
    this.#batch.push({ entry, applied });
    if (this.#batch.length < BATCH) return;
    await this.#flush();
    await this.#wait(MOST_WAITING - BATCH);
  }

  async end(): Promise<void> {
    await this.begin();
    await this.#flush();
    await this.#wait(0);
    await this.#note("done");
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    await this.#apply.point(batch.flatMap(({ applied }) => applied.staged ?? []));
    for (const { entry, applied } of batch) this.#count.carriedOut(entry, applied.outcome);
    const staged = batch.filter(({ applied }) => applied.staged !== undefined);
    this.#waiting = [...this.#waiting, ...staged.map(({ entry }) => entry)];
    this.#batch = [];
    // After a crash before this line the batch is carried out again, which changes nothing.
    await this.#note("running");
    this.#apply.onProgress(this.applied);
  }

  /** Waits until at most so many changes wait, and for the end of a pause of the lane bulk. */
  async #wait(most: number): Promise<void> {
    for (;;) {
      await this.#leaveOutSent();
      // What was staged before the pause may have been promoted: then nothing is left to wait for.
      const isPaused = await this.#notePause();
      if (this.#waiting.length <= most && !(isPaused && most > 0)) return;
      await sleep(CHECK_MS);
    }
  }

  async #leaveOutSent(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const codes = await this.#apply.stores.staged.unsynced(this.#waiting.map(({ code }) => code));
    if (codes.length === this.#waiting.length) return;
    const unsynced = new Set(codes);
    this.#waiting = this.#waiting.filter(({ code }) => unsynced.has(code));
    await this.#note("running");
    this.#apply.onProgress(this.applied);
  }

  async #notePause(): Promise<boolean> {
    const pause = await this.#apply.stores.bulkPauses.current();
    const isPaused = pause !== undefined;
    if (isPaused !== this.#isPaused) this.#apply.onPause(pause);
    this.#isPaused = isPaused;
    return isPaused;
  }

  async #note(state: "running" | "done"): Promise<void> {
    const { reconciliations } = this.#apply.stores;
    await reconciliations.note(this.#count.note(this.#plan, state, this.#waiting));
  }
}
