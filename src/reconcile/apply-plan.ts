/**
 * Carries out a plan: feeds its entries into the bulk lane, a few hundred at once, as the quota takes
 * them. A crash continues after the last entry that was noted; what is done twice changes nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../ops/user-error.ts";
import type { Reconciliations } from "../state/reconciliations.ts";
import type { StagedStates } from "../state/staged-state.ts";
import type { Accepted } from "../sync/accept-event.ts";
import {
  applyRecord,
  applyTermination,
  ENTRY_OUTCOMES,
  type AppliedEntry,
  type EntryOutcome,
  type EntryStores,
} from "./apply-entry.ts";
import { entriesOf, type OpenPlan, type PlanEntry } from "./plan-file.ts";
import type { PlanningView } from "./plan-record.ts";
import type { SnapshotEvent } from "./read-events.ts";

/** Most changes that wait in Redis at once. */
const MOST_WAITING = 300;

/** Entries between two notes of the progress. */
const BATCH = 50;

/** How often it is looked whether changes were sent, ms. */
const CHECK_MS = 200;

export interface ApplyView {
  readonly stores: EntryStores & {
    readonly staged: Pick<StagedStates, "unsynced">;
    readonly reconciliations: Reconciliations;
  };
  /** The records of the snapshot that the plan was made for. */
  readonly events: AsyncIterable<SnapshotEvent>;
  readonly view: Omit<PlanningView, "now">;
  readonly now: () => number;
  /** Adds pointer jobs for what was staged. */
  readonly point: (staged: readonly Accepted[]) => Promise<void>;
  readonly onProgress: (applied: Applied) => void;
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
  const { reconciliations } = apply.stores;
  const { id, snapshot } = plan.header;
  const skip = (await reconciliations.progress(id))?.done ?? 0;
  const feed = new Feed(apply, plan, skip);
  await reconciliations.note(id, { state: "running", done: skip });
  const events = apply.events[Symbol.asyncIterator]();
  let number = 0;
  try {
    for await (const entry of entriesOf(plan)) {
      number += 1;
      if (number <= skip) continue;
      if (entry.position === null) {
        await feed.add(entry, await applyTermination(entry, snapshot.asOf, apply.stores));
        continue;
      }
      const event = await eventAt(events, entry.position);
      const view = { ...apply.view, now: apply.now() };
      await feed.add(entry, await applyRecord(entry, event.event, view, apply.stores));
    }
    await feed.flush();
    await feed.wait(0);
    await reconciliations.note(id, { state: "done", done: plan.entries });
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
  #done: number;
  #batch: { entry: PlanEntry; applied: AppliedEntry }[] = [];
  /** crmCodes of what was staged, and not seen on the service. */
  #waiting: readonly string[] = [];
  readonly #outcomes = Object.fromEntries(
    Object.keys(ENTRY_OUTCOMES).map((name) => [name, 0]),
  ) as Record<EntryOutcome, number>;

  constructor(apply: ApplyView, plan: OpenPlan, done: number) {
    this.#apply = apply;
    this.#plan = plan;
    this.#done = done;
  }

  get applied(): Applied {
    return { done: this.#done, outcomes: { ...this.#outcomes }, waiting: this.#waiting.length };
  }

  async add(entry: PlanEntry, applied: AppliedEntry): Promise<void> {
    this.#batch.push({ entry, applied });
    if (this.#batch.length < BATCH) return;
    await this.flush();
    await this.wait(MOST_WAITING - BATCH);
  }

  async flush(): Promise<void> {
    const { point, stores } = this.#apply;
    const staged = this.#batch.flatMap(({ applied }) => applied.staged ?? []);
    await point(staged);
    this.#done += this.#batch.length;
    // After a crash before this line the batch is carried out again, which changes nothing.
    await stores.reconciliations.note(this.#plan.header.id, { state: "running", done: this.#done });
    await this.#countRepaired();
    this.#waiting = [...this.#waiting, ...staged.flatMap(({ crmCode }) => crmCode ?? [])];
    this.#batch = [];
    this.#apply.onProgress(this.applied);
  }

  /** Waits until at most so many changes wait. */
  async wait(most: number): Promise<void> {
    while (this.#waiting.length > most) {
      this.#waiting = await this.#apply.stores.staged.unsynced(this.#waiting);
      this.#apply.onProgress(this.applied);
      if (this.#waiting.length > most) await sleep(CHECK_MS);
    }
  }

  async #countRepaired(): Promise<void> {
    const repaired = new Map<PlanEntry["kind"], number>();
    for (const { entry, applied } of this.#batch) {
      this.#outcomes[applied.outcome] += 1;
      repaired.set(entry.kind, (repaired.get(entry.kind) ?? 0) + 1);
    }
    for (const [kind, count] of repaired) {
      await this.#apply.stores.reconciliations.repaired(kind, count);
    }
  }
}
