import TinyQueue from "tinyqueue";

interface Place<Entry> {
  readonly entry: Entry;
  readonly rank: number;
  readonly number: number;
}

/** Records that wait, the lowest rank first; of equal ranks, the one that began to wait first. */
export class Line<Entry> {
  /** A place that another one has replaced stays in it until it would be first. */
  readonly #queue = new TinyQueue<Place<Entry>>(
    [],
    (a, b) => a.rank - b.rank || a.number - b.number,
  );
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
    this.#queue.push(place);
  }

  remove(entry: Entry): void {
    this.#places.delete(entry);
  }

  rankOf(entry: Entry): number | undefined {
    return this.#places.get(entry)?.rank;
  }

  first(): Place<Entry> | undefined {
    let place = this.#queue.peek();
    while (place !== undefined && this.#places.get(place.entry) !== place) {
      this.#queue.pop();
      place = this.#queue.peek();
    }
    return place;
  }
}
