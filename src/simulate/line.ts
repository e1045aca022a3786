/** Records that wait, the lowest rank first; of equal ranks, the one that began to wait first. */
interface Place<Entry> {
  readonly entry: Entry;
  readonly rank: number;
  readonly number: number;
}

/** A binary heap: a place that another one has replaced stays in it until it would be first. */
export class Line<Entry> {
  readonly #heap: Place<Entry>[] = [];
  readonly #places = new Map<Entry, Place<Entry>>();
  #added = 0;

  get size(): number {
    return this.#places.size;
  }

  /** Adds it, or gives it another rank. */
  put(entry: Entry, rank: number): void {
    const number = this.#places.get(entry)?.number ?? this.#added++;
    const place = { entry, rank, number };
    this.#places.set(entry, place);
    let index = this.#heap.length;
    for (let above = index; index > 0; index = above) {
      above = (index - 1) >> 1;
      const parent = this.#heap[above] as Place<Entry>;
      if (!isBefore(place, parent)) break;
      this.#heap[index] = parent;
    }
    this.#heap[index] = place;
  }

  remove(entry: Entry): void {
    this.#places.delete(entry);
  }

  takeFirst(): Entry {
    const place = this.#first();
    if (place === undefined) throw new Error("nothing waits in this line");
    this.remove(place.entry);
    return place.entry;
  }

  rankOf(entry: Entry): number | undefined {
    return this.#places.get(entry)?.rank;
  }

  get lowestRank(): number | undefined {
    return this.#first()?.rank;
  }

  #first(): Place<Entry> | undefined {
    for (;;) {
      const place = this.#heap[0];
      if (place === undefined || this.#places.get(place.entry) === place) return place;
      this.#removeFirst();
    }
  }

  #removeFirst(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const right = this.#heap[left + 1];
      const isRight = right !== undefined && isBefore(right, this.#heap[left] as Place<Entry>);
      const below = isRight ? right : this.#heap[left];
      if (below === undefined || !isBefore(below, last)) break;
      this.#heap[index] = below;
      index = isRight ? left + 1 : left;
    }
    this.#heap[index] = last;
  }
}

const isBefore = <Entry>(a: Place<Entry>, b: Place<Entry>): boolean =>
  a.rank < b.rank || (a.rank === b.rank && a.number < b.number);
