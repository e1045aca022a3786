/** Feeds a plan into the lane bulk: a few hundred changes wait in Redis at once, whatever its size. */
import { setTimeout as sleep } from "node:timers/promises";
import { counted } from "../../base/counted.ts";
import { UserError } from "../../base/user-error.ts";
import type { BulkPause } from "../../core/state/bulk-changes.ts";
import type { Stores } from "../../operate/status/stores.ts";
import type { AppliedEntry, EntryOutcome } from "./apply-entry.ts";
import type { PlanCount } from "./plan-count.ts";
import type { OpenPlan, PlanEntry } from "./plan-file.ts";

/** Most changes that wait in Redis at once. */
const MOST_WAITING = 300;

/** Entries between two notes of the progress. */
const BATCH = 50;

/** Entries of an earlier run that are looked up at once. */
const RECALLED = 500;

/** How often it is looked whether changes were sent, and whether the lane bulk is paused, ms. */
const CHECK_MS = 200;

export interface FeedView {
  readonly stores: Pick<
    Stores,
    "bulkChanges" | "bulkPauses" | "heldTerminations" | "line" | "reconciliations" | "staged"
  >;
  /** @throws TryLater when another process may carry out a plan by now. */
  readonly keepClaim: () => Promise<void>;
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

/** A change that was staged, and has not ended as far as is known. */
interface Waiting {
  readonly entry: PlanEntry;
  /** It was staged by an earlier run. */
  readonly isRecalled: boolean;
}

export class Feed {
  readonly #apply: FeedView;
  readonly #plan: OpenPlan;
  readonly #count: PlanCount;
  #batch: { entry: PlanEntry; applied: AppliedEntry }[] = [];
  #waiting: readonly Waiting[] = [];
  #recalled: PlanEntry[] = [];
  #isPaused = false;
  #hasBegun = false;

  constructor(apply: FeedView, plan: OpenPlan, count: PlanCount) {
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
    const codes = await this.#apply.stores.line.unsynced(this.#recalled.map(({ code }) => code));
    const waiting = new Set(codes);
    const recalled = this.#recalled.filter(({ code }) => waiting.has(code));
    this.#await(recalled, { isRecalled: true });
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

  #await(entries: readonly PlanEntry[], { isRecalled }: Pick<Waiting, "isRecalled">): void {
    this.#waiting = [...this.#waiting, ...entries.map((entry) => ({ entry, isRecalled }))];
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    for (const { entry, applied } of batch) this.#count.carriedOut(entry, applied.outcome);
    const staged = batch.filter(({ applied }) => applied.staged !== undefined);
    const entries = staged.map(({ entry }) => entry);
    this.#await(entries, { isRecalled: false });
    this.#batch = [];
    // After a crash before this line the batch is carried out again, which changes nothing. What was staged after
    // the plan was cancelled is dropped like the rest.
    if (!(await this.#isNoted("running"))) {
      await this.#apply.stores.bulkChanges.drop(staged.map(({ entry }) => entry.code));
      throw this.#cancelled();
    }
    this.#apply.onProgress(this.applied);
  }

  /** Waits until at most so many changes wait, and for the end of a pause of the lane bulk. */
  async #wait(most: number): Promise<void> {
    for (;;) {
      await this.#apply.keepClaim();
      await this.#leaveOutEnded();
      await this.#requireUncancelled();
      // Live events may have sent along what was staged before the pause: then nothing is left to wait for.
      const isPaused = await this.#notePause();
      if (this.#waiting.length <= most && !(isPaused && most > 0)) return;
      await sleep(CHECK_MS);
    }
  }

  async #leaveOutEnded(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const { heldTerminations, line } = this.#apply.stores;
    const codes = await line.unsynced(this.#waiting.map(({ entry }) => entry.code));
    if (codes.length === this.#waiting.length) return;
    const unsynced = new Set(codes);
    const ended = this.#waiting.filter(({ entry }) => !unsynced.has(entry.code));
    this.#waiting = this.#waiting.filter(({ entry }) => unsynced.has(entry.code));
    // Whether TERMINATE_LIMIT holds a termination turns out when it would be sent.
    const held = new Set(await heldTerminations.among(ended.map(({ entry }) => entry.code)));
    for (const { entry, isRecalled } of ended) {
      if (held.has(entry.code)) this.#count.held(isRecalled);
    }
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
    if (!(await this.#isNoted(state))) throw this.#cancelled();
  }

  /** False when the plan was cancelled. */
  async #isNoted(state: "running" | "done"): Promise<boolean> {
    await this.#apply.keepClaim();
    const waiting = this.#waiting.map(({ entry }) => entry);
    const note = this.#count.note(this.#plan, state, waiting);
    return this.#apply.stores.reconciliations.note(note);
  }

  async #requireUncancelled(): Promise<void> {
    const { id } = this.#plan.header;
    if (await this.#apply.stores.reconciliations.isCancelled(id)) throw this.#cancelled();
  }

  #cancelled(): UserError {
    const { entries } = this.#plan;
    return new UserError(
      `the plan was cancelled: ${this.#count.done} of ${counted(entries, "change")} had been fed, and those that still waited were dropped. Compare again to see what is left.`,
    );
  }
}
