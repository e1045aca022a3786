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
  /** The whole state that the record has after it; equal ones are equal states. Without it, a new state. */
  readonly state?: number | string;
  /** The change brings no fields, so the relation must be read before it is written. */
  readonly bare?: boolean;
  /** The record is new, so that its relation must be created. */
  readonly creates?: boolean;
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
  /** The relation was read, to be written next. */
  isRead?: boolean;
  /** The newest change that was sent. */
  proven?: Change | undefined;
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
  /** When each change was proven on the service, or needed nothing more; by its index. */
  readonly settledAt: Float64Array;
  /** Changes that were sent, replaced by a newer one, or needed no request. */
  readonly counts = { sent: 0, coalesced: 0, unchanged: 0 };
  readonly #lines: Readonly<Record<Lane, Line<KnownRecord>>> = {
    live: new Line(),
    bulk: new Line(),
  };
  readonly #records = new Map<number, KnownRecord>();
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
    return this.#lines.live.first()?.rank;
  }

  /** @returns whether it waits, so that it counts as demand. */
  arrive(change: Arrived): boolean {
    const known = this.#records.get(change.record) ?? {};
    this.#records.set(change.record, known);
    if (known.waiting === undefined) known.waiting = [change];
    else known.waiting.push(change);
    if (known.sent !== undefined) return true;
    if (this.#endIfProven(known, known.waiting, change.at)) return false;
    this.#wait(known, known.waiting);
    return true;
  }

  take(lane: Lane): KnownRecord {
    const known = this.#lines[lane].first()?.entry;
    if (known === undefined) throw new Error(`no record of the lane ${lane} waits`);
    this.#lines[lane].remove(known);
    known.sent = known.waiting;
    known.waiting = undefined;
    return known;
  }

  /** The reply to the request for a record that was taken has come. */
  answered(known: KnownRecord, now: number): void {
    const { sent } = known;
    if (sent === undefined) return;
    known.sent = undefined;
    if (this.#wasRead(known, sent)) {
      // What it was read for is written next, by a request of its own.
      known.waiting = [...sent, ...(known.waiting ?? [])];
      known.isRead = true;
    } else {
      known.proven = sent.at(-1);
      this.#settle(known, sent, now, "sent");
    }
    if (known.waiting === undefined) return;
    this.#wait(known, known.waiting);
    this.#endIfProven(known, known.waiting, now);
  }

  /** Whether the request has only read the relation. */
  #wasRead({ isRead, proven }: KnownRecord, sent: Changes): boolean {
    if (isRead === true) return false;
    const updates = proven !== undefined || sent[0].creates !== true;
    return (this.#readsFirst && updates) || sent.every(({ bare }) => bare);
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

  #endIfProven(known: KnownRecord, changes: Changes<Arrived>, now: number): boolean {
    const state = changes.at(-1)?.state;
    if (state === undefined || state !== known.proven?.state) return false;
    this.#lines.live.remove(known);
    this.#lines.bulk.remove(known);
    known.waiting = undefined;
    this.#settle(known, changes, now, "unchanged");
    return true;
  }

  #settle(
    known: KnownRecord,
    changes: Changes<Arrived>,
    now: number,
    newest: "sent" | "unchanged",
  ): void {
    known.isRead = false;
    for (const { index } of changes) this.settledAt[index] = now;
    this.counts[newest] += 1;
    this.counts.coalesced += changes.length - 1;
  }
}
