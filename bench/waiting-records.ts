/**
 * Which records wait, and what becomes of their changes, as staging and settling do it: the changes of a record that
 * wait together need one request, and a record whose request is under way waits for its reply.
 */
import TinyQueue from "tinyqueue";
import type { Lane } from "../src/core/event/lane.ts";

/** One change of one record: each brings a new state. */
export interface Change {
  /** When it happened and arrived, ms. */
  readonly at: number;
  readonly record: number;
  /** Undefined: `live`. */
  readonly lane?: Lane;
}

export const laneOf = ({ lane }: Change): Lane => lane ?? "live";

/** Changes of one record that need one request, in the order in which they came. */
export type Changes<Each extends Change = Change> = [Each, ...Each[]];

/** A change with its index among all of them. */
interface Arrived extends Change {
  readonly index: number;
}

/** What the simulation knows of one record. */
export interface KnownRecord {
  waiting?: Changes<Arrived> | undefined;
  /** Their request is under way: newer ones wait for its reply. */
  sent?: Changes<Arrived> | undefined;
}

/**
 * The rank of a live record that begins to wait, or has changed again: the lowest is served first.
 * @param rank the one that it has @param lowest of those that wait
 */
export type RankOf = (
  changes: Readonly<Changes>,
  rank: number | undefined,
  lowest: number | undefined,
) => number;

export class WaitingRecords {
  /** When each change was proven on the service; by its index. */
  readonly settledAt: Float64Array;
  readonly #lines: Readonly<Record<Lane, Line>> = { live: new Line(), bulk: new Line() };
  readonly #records = new Map<number, KnownRecord>();
  readonly #rankOf: RankOf;

  constructor(changes: number, rankOf: RankOf) {
    this.settledAt = new Float64Array(changes);
    this.#rankOf = rankOf;
  }

  count(lane: Lane): number {
    return this.#lines[lane].size;
  }

  get lowestRank(): number | undefined {
    return this.#lines.live.first()?.rank;
  }

  arrive(change: Arrived): void {
    const known = this.#records.get(change.record) ?? {};
    this.#records.set(change.record, known);
    if (known.waiting === undefined) known.waiting = [change];
    else known.waiting.push(change);
    if (known.sent === undefined) this.#wait(known, known.waiting);
  }

  take(lane: Lane): KnownRecord {
    const known = this.#lines[lane].first()?.record;
    if (known === undefined) throw new Error(`no record of the lane ${lane} waits`);
    this.#lines[lane].remove(known);
    known.sent = known.waiting;
    known.waiting = undefined;
    return known;
  }

  /** The reply to the request for a record that was taken has come. */
  answered(known: KnownRecord, now: number): void {
    for (const { index } of known.sent ?? []) this.settledAt[index] = now;
    known.sent = undefined;
    if (known.waiting !== undefined) this.#wait(known, known.waiting);
  }

  #wait(known: KnownRecord, changes: Changes): void {
    const { live, bulk } = this.#lines;
    if (changes.some((change) => laneOf(change) === "live")) {
      bulk.remove(known);
      live.put(known, this.#rankOf(changes, live.rankOf(known), this.lowestRank));
    } else {
      bulk.put(known, 0);
    }
  }
}

interface Place {
  readonly record: KnownRecord;
  readonly rank: number;
  readonly number: number;
}

/** Records that wait, the lowest rank first; of equal ranks, the one that began to wait first. */
class Line {
  /** A place that another one has replaced stays in it until it would be first. */
  readonly #queue = new TinyQueue<Place>([], (a, b) => a.rank - b.rank || a.number - b.number);
  readonly #places = new Map<KnownRecord, Place>();
  #added = 0;

  get size(): number {
    return this.#places.size;
  }

  /** Adds it, or gives it another rank. */
  put(record: KnownRecord, rank: number): void {
    const number = this.#places.get(record)?.number ?? this.#added++;
    const place = { record, rank, number };
    this.#places.set(record, place);
    this.#queue.push(place);
  }

  remove(record: KnownRecord): void {
    this.#places.delete(record);
  }

  rankOf(record: KnownRecord): number | undefined {
    return this.#places.get(record)?.rank;
  }

  first(): Place | undefined {
    let place = this.#queue.peek();
    while (place !== undefined && this.#places.get(place.record) !== place) {
      this.#queue.pop();
      place = this.#queue.peek();
    }
    return place;
  }
}
