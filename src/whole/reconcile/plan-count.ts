/** How far a plan was carried out: its entries, the requests that the others need, what is repaired. */
import type { ByKind, PlanNote, PlanProgress } from "../../core/state/reconciliations.ts";
import { ENTRY_OUTCOMES, type EntryOutcome } from "./apply-entry.ts";
import type { OpenPlan, PlanEntry } from "./plan-file.ts";

type Kind = PlanEntry["kind"];

export class PlanCount {
  /** Entries that were carried out, of this and earlier runs. */
  done = 0;
  /** Of this run. */
  readonly outcomes = Object.fromEntries(
    Object.keys(ENTRY_OUTCOMES).map((name) => [name, 0]),
  ) as Record<EntryOutcome, number>;
  #requests: number;
  /** Entries that were carried out, less those that were left out. */
  readonly #byKind = new Map<Kind, number>();
  /** Entries that were left out since the last note. */
  #leftOut = new Map<Kind, number>();
  /** Differences that were noted as repaired. */
  readonly #repaired: Map<Kind, number>;

  constructor({ header }: OpenPlan, progress: PlanProgress | undefined) {
    this.#requests = header.requests;
    this.#repaired = countsOf(progress?.repaired);
    for (const [kind, count] of countsOf(progress?.leftOut)) add(this.#byKind, kind, -count);
  }

  /** Counts an entry that an earlier run has carried out. */
  skipped(entry: PlanEntry): void {
    this.done += 1;
    this.#requests -= entry.requests;
    add(this.#byKind, entry.kind, 1);
  }

  carriedOut(entry: PlanEntry, outcome: EntryOutcome): void {
    this.skipped(entry);
    this.outcomes[outcome] += 1;
    if (outcome !== "changed") return;
    add(this.#byKind, entry.kind, -1);
    add(this.#leftOut, entry.kind, 1);
  }

  /** A change that was staged is held for a person instead of sent. */
  held(isOfEarlierRun: boolean): void {
    this.outcomes.held += 1;
    if (!isOfEarlierRun) this.outcomes.sent -= 1;
  }

  /**
   * What is to be noted now. A difference is repaired when its change does not wait any more, or is held;
   * what was left out differs still.
   */
  note(
    { entries, header }: OpenPlan,
    state: PlanNote["state"],
    waiting: readonly PlanEntry[],
  ): PlanNote {
    const repaired = new Map(this.#byKind);
    for (const { kind } of waiting) add(repaired, kind, -1);
    for (const [kind, count] of this.#repaired) add(repaired, kind, -count);
    const since = [...repaired].filter(([, count]) => count > 0);
    for (const [kind, count] of since) add(this.#repaired, kind, count);
    const leftOut = Object.fromEntries(this.#leftOut);
    this.#leftOut = new Map();
    return {
      id: header.id,
      state,
      done: this.done,
      entries,
      requests: Math.max(0, this.#requests),
      repaired: Object.fromEntries(since),
      leftOut,
    };
  }
}

const countsOf = (counts: ByKind = {}): Map<Kind, number> =>
  new Map(Object.entries(counts) as [Kind, number][]);

function add(counts: Map<Kind, number>, kind: Kind, count: number): void {
  counts.set(kind, (counts.get(kind) ?? 0) + count);
}
