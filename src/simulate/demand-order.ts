import {
  FIRST_CHANGES,
  firstChangesOf,
  firstChangesWords,
  gapOf,
  learn,
  slotOf,
  TICKS_PER_HOUR,
  WORDS,
} from "../quota/gaps.ts";
import { leadOf, rankAgain, rankOf } from "../quota/rank.ts";
import { RankedOrder, type ServiceOrder, type Waiting } from "./service-order.ts";

/** The order in which crmsync serves live records, as lua/count-changes.lua keeps it. */
export class DemandOrder implements ServiceOrder {
  readonly #hourMs: number;
  readonly #ranks = new Map<Waiting, number>();
  readonly #order = new RankedOrder<Waiting>((entry) => this.#ranks.get(entry) ?? 0);
  readonly #words = new Uint32Array(WORDS);

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
    const words = this.#words;
    const tickMs = this.#hourMs / TICKS_PER_HOUR;
    const now = Math.floor(newest / tickMs);
    const slot = slotOf(String(record));
    const firstWords = FIRST_CHANGES.map((word) => words[word] ?? 0);
    const before = firstChangesOf(firstWords, now);
    const { word, first } = learn(words[slot] ?? 0, before, now);
    words[slot] = word;
    if (first !== before) words.set(firstChangesWords(first), FIRST_CHANGES[0]);
    return gapOf(word, first) * tickMs;
  }
}
