/**
 * Which records wait, and what becomes of their changes, as staging and settling do it: the newest
 * state of a record waits; a state that the service has already ends without a request; a record
 * whose request is under way waits for its reply.
 */
import type { Lane } from "../event/lane.ts";
import { Line } from "./line.ts";

/** One change of one record. */
export interface Change {
  /** When it happened and arrived, ms. */
  readonly at: number;
  readonly record: number;
  /** Undefined: `live`. */
  readonly lane?: Lane;
  /** The whole state that the record has after it; equal numbers are equal states. Without it, a new state. */
  readonly state?: number;
  /** The change brings no fields, so the relation must be read before it is written. */
  readonly bare?: boolean;
  /** The record is new, so that its relation must be created. */
  readonly creates?: boolean;
}

export const laneOf = ({ lane }: Change): Lane => lane ?? "live";

/** What the simulation knows of one record. */
interface RecordState {
  waiting: Waiting | undefined;
  /** Its request is under way: a newer state waits for the reply. */
  busy: boolean;
  proven: number | undefined;
  /** Something was sent, so the relation exists. */
  exists: boolean;
}

/** A record that waits, with its changes that have coalesced so far. */
export interface Waiting {
  readonly record: number;
  readonly known: RecordState;
  /** Indexes of its changes, in the order in which they came. */
  readonly changes: number[];
  /** Times of its first and its newest change, ms. */
  readonly first: number;
  newest: number;
  lane: Lane;
  /** No change so far has brought fields. */
  bare: boolean;
  /** It began with the creation of the record. */
  readonly creates: boolean;
  /** Its relation was read, to be written next. */
  isRead: boolean;
  state: number | undefined;
}

/**
 * The rank of a live record that begins to wait, or has changed again: the lowest is served first.
 * @param rank the one that it has @param lowest of those that wait
 */
export type RankOf = (
  waiting: Waiting,
  rank: number | undefined,
  lowest: number | undefined,
) => number;

export class WaitingRecords {
  /** When each change was proven on the service, or needed nothing more; by its index. */
  readonly settledAt: Float64Array;
  /** Changes that were sent, replaced by a newer one, or needed no request. */
  readonly counts = { sent: 0, coalesced: 0, unchanged: 0 };
  readonly #lines: Readonly<Record<Lane, Line<Waiting>>> = { live: new Line(), bulk: new Line() };
  readonly #records = new Map<number, RecordState>();
  readonly #rankOf: RankOf;
  readonly #readsFirst: boolean;

  /** @param readsFirst whether an update reads the relation first: the mapping has kept fields. */
  constructor(changes: number, rankOf: RankOf, readsFirst: boolean) {
    this.settledAt = new Float64Array(changes);
    this.#rankOf = rankOf;
    this.#readsFirst = readsFirst;
  }

  count(lane: Lane): number {
    return this.#lines[lane].size;
  }

  get lowestRank(): number | undefined {
    return this.#lines.live.rankOf(this.#lines.live.first());
  }

  /** @returns whether it waits, so that it counts as demand. */
  arrive(index: number, change: Change): boolean {
    const known = this.#stateOf(change.record);
    const waiting = (known.waiting ??= beginning(change, known));
    waiting.changes.push(index);
    waiting.state = change.state;
    if (!known.busy && this.#endIfProven(waiting, change.at)) return false;
    waiting.newest = change.at;
    waiting.bare &&= change.bare ?? false;
    if (laneOf(change) === "live" && waiting.lane === "bulk") {
      this.#lines.bulk.remove(waiting);
      waiting.lane = "live";
    }
    if (!known.busy) this.#wait(waiting);
    return true;
  }

  take(lane: Lane): Waiting {
    const waiting = this.#lines[lane].first();
    if (waiting === undefined) throw new Error(`no record of the lane ${lane} waits`);
    this.#lines[lane].remove(waiting);
    waiting.known.waiting = undefined;
    waiting.known.busy = true;
    return waiting;
  }

  /** The reply to the request for a record that was taken has come. */
  answered(sent: Waiting, now: number): void {
    const { known } = sent;
    known.busy = false;
    if (sent.bare || (this.#readsFirst && !sent.isRead && (known.exists || !sent.creates))) {
      // Read: what it was read for is written next, by a request of its own.
      known.waiting = { ...merged(sent, known.waiting), bare: false, isRead: true };
    } else {
      this.#settle(sent, now, "sent");
      known.proven = sent.state;
      known.exists = true;
    }
    if (known.waiting === undefined) return;
    this.#wait(known.waiting);
    this.#endIfProven(known.waiting, now);
  }

  #stateOf(record: number): RecordState {
    const known = this.#records.get(record);
    if (known !== undefined) return known;
    const state = { waiting: undefined, busy: false, proven: undefined, exists: false };
    this.#records.set(record, state);
    return state;
  }

  #wait(waiting: Waiting): void {
    const line = this.#lines[waiting.lane];
    const rank = line.rankOf(waiting);
    if (waiting.lane === "live") line.put(waiting, this.#rankOf(waiting, rank, this.lowestRank));
    else if (rank === undefined) line.put(waiting, 0);
  }

  #endIfProven(waiting: Waiting, now: number): boolean {
    const { known, lane, state } = waiting;
    if (state === undefined || state !== known.proven) return false;
    this.#lines[lane].remove(waiting);
    this.#settle(waiting, now, "unchanged");
    known.waiting = undefined;
    return true;
  }

  #settle({ changes }: Waiting, now: number, newest: "sent" | "unchanged"): void {
    for (const index of changes) this.settledAt[index] = now;
    this.counts[newest] += 1;
    this.counts.coalesced += changes.length - 1;
  }
}

const beginning = (change: Change, known: RecordState): Waiting => ({
  record: change.record,
  known,
  changes: [],
  first: change.at,
  newest: change.at,
  lane: laneOf(change),
  bare: change.bare ?? false,
  creates: change.creates ?? false,
  isRead: false,
  state: undefined,
});

/** A state that was taken, and the newer one that has come meanwhile. */
const merged = (older: Waiting, newer: Waiting = older): Waiting => ({
  ...newer,
  changes: newer === older ? older.changes : [...older.changes, ...newer.changes],
  first: older.first,
  lane: older.lane === "live" ? "live" : newer.lane,
});
