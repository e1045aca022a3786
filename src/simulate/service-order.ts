/** Which of the waiting records is served next. */

/** A waiting record, and its changes that have coalesced so far. */
export interface Waiting {
  readonly record: number;
  /** Indexes of its changes, in the order in which they came. */
  readonly changes: number[];
  /** Times of its first and its newest change, and the sum of all of them, ms. */
  readonly first: number;
  readonly newest: number;
  readonly sum: number;
}

export interface ServiceOrder<Entry extends Waiting = Waiting> {
  readonly size: number;
  /** The rank of the first record, if ranks are times, ms. */
  readonly lowestRank?: number | undefined;
  /** A record begins to wait. */
  add(entry: Entry): void;
  /** A further change of a record that waits has come. */
  changed(entry: Entry): void;
  remove(entry: Entry): void;
  /** The record to serve next, which stays in the order; undefined when none waits. */
  first(now: number): Entry | undefined;
}

interface Place<Entry> {
  readonly entry: Entry;
  /** Of two equal ranks, the one that began to wait first. */
  readonly number: number;
  rank: number;
  index: number;
}

/** The lowest rank first; a rank may change with each change of its record. A binary heap. */
export class RankedOrder<Entry extends Waiting> implements ServiceOrder<Entry> {
  readonly #rankOf: (entry: Entry) => number;
  readonly #heap: Place<Entry>[] = [];
  readonly #places = new Map<Entry, Place<Entry>>();
  #added = 0;

  constructor(rankOf: (entry: Entry) => number) {
    this.#rankOf = rankOf;
  }

  get size(): number {
    return this.#heap.length;
  }

  add(entry: Entry): void {
    const index = this.#heap.length;
    const place = { entry, number: this.#added, rank: this.#rankOf(entry), index };
    this.#added += 1;
    this.#places.set(entry, place);
    this.#heap.push(place);
    this.#rise(place);
  }

  changed(entry: Entry): void {
    const place = this.#places.get(entry);
    if (place === undefined) return;
    place.rank = this.#rankOf(entry);
    this.#rise(place);
    this.#sink(place);
  }

  remove(entry: Entry): void {
    const place = this.#places.get(entry);
    if (place === undefined) return;
    this.#places.delete(entry);
    const last = this.#heap.pop();
    if (last === undefined || last === place) return;
    this.#put(last, place.index);
    this.#rise(last);
    this.#sink(last);
  }

  first(): Entry | undefined {
    return this.#heap[0]?.entry;
  }

  #rise(place: Place<Entry>): void {
    for (;;) {
      const above = this.#heap[(place.index - 1) >> 1];
      if (place.index === 0 || above === undefined || !isBefore(place, above)) return;
      this.#swap(place, above);
    }
  }

  #sink(place: Place<Entry>): void {
    for (;;) {
      const left = this.#heap[2 * place.index + 1];
      const right = this.#heap[2 * place.index + 2];
      const below = left && right && isBefore(right, left) ? right : left;
      if (below === undefined || !isBefore(below, place)) return;
      this.#swap(place, below);
    }
  }

  #swap(a: Place<Entry>, b: Place<Entry>): void {
    const { index } = a;
    this.#put(a, b.index);
    this.#put(b, index);
  }

  #put(place: Place<Entry>, index: number): void {
    place.index = index;
    this.#heap[index] = place;
  }
}

const isBefore = <Entry>(a: Place<Entry>, b: Place<Entry>): boolean =>
  a.rank < b.rank || (a.rank === b.rank && a.number < b.number);
