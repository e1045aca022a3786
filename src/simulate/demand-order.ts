import type { Pace } from "../sync/ledger-row.ts";
import { gapOf, leadOf, learn, NO_FIRST_CHANGES, rankAgain, rankOf } from "../sync/rank.ts";
import { RankedOrder, type ServiceOrder, type Waiting } from "./service-order.ts";

/** The order in which crmsync serves live records, as staging keeps it (src/state/staged-state.ts). */
export class DemandOrder implements ServiceOrder {
  readonly #hourMs: number;
  readonly #ranks = new Map<Waiting, number>();
  readonly #order = new RankedOrder<Waiting>((entry) => this.#ranks.get(entry) ?? 0);
  readonly #paces = new Map<number, Pace>();
  #first = NO_FIRST_CHANGES;

  constructor(hourMs: number) {
    this.#hourMs = hourMs;
  }

  get size(): number {
    return this.#order.size;
  }

  get lowestRank(): number | undefined {
    const first = this.#order.first();
    return first === undefined ? undefined : this.#ranks.get(first);
  }

  add(entry: Waiting): void {
    const lead = leadOf(entry.newest, this.lowestRank);
    this.#ranks.set(entry, rankOf(entry.first, this.#learn(entry), lead));
    this.#order.add(entry);
  }

  changed(entry: Waiting): void {
    const lead = leadOf(entry.newest, this.lowestRank);
    const rank = this.#ranks.get(entry) ?? entry.first;
    this.#learn(entry);
    this.#ranks.set(entry, rankAgain(rank, lead, this.#hourMs));
    this.#order.changed(entry);
  }

  remove(entry: Waiting): void {
    this.#order.remove(entry);
    this.#ranks.delete(entry);
  }

  first(): Waiting | undefined {
    return this.#order.first();
  }

  /** @returns the usual gap of its record, with its newest change, ms */
  #learn({ record, newest }: Waiting): number {
    const { first, pace } = learn(this.#paces.get(record), this.#first, newest, this.#hourMs);
    this.#paces.set(record, pace);
    this.#first = first;
    return gapOf(pace, first, this.#hourMs);
  }
}
