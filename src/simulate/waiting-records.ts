/**
 * Which records wait, and what becomes of their changes, as staging and settling do it: the newest
 * state of a record waits; a state that the service has already ends without a request; a record
 * whose request is under way waits for its reply.
 */
import type { Lane } from "../event/lane.ts";
import { laneOf, type Change } from "./change.ts";
import { RankedOrder, type ServiceOrder, type Waiting } from "./service-order.ts";

interface WaitingRecord extends Waiting {
  first: number;
  newest: number;
  sum: number;
  lane: Lane;
  /** No change so far has brought fields. */
  bare: boolean;
  /** It began with the creation of the record. */
  creates: boolean;
  /** Its relation was read, to be written next. */
  isRead: boolean;
  state: number | undefined;
}

/** What the simulation knows of one record. */
interface RecordState {
  waiting: WaitingRecord | undefined;
  /** Its request is under way: a newer state waits for the reply. */
  busy: boolean;
  proven: number | undefined;
  /** Something was sent, so the relation exists. */
  exists: boolean;
}

/** A record that a request was spent on. */
export interface Taken {
  readonly record: number;
  readonly waiting: WaitingRecord;
}

export class WaitingRecords {
  /** When each change was proven on the service, or needed nothing more; by its index. */
  readonly settledAt: Float64Array;
  /** Changes that were sent, replaced by a newer one, or needed no request. */
  readonly counts = { sent: 0, coalesced: 0, unchanged: 0 };
  readonly #changes: readonly Change[];
  readonly #readsFirst: boolean;
  readonly #records = new Map<number, RecordState>();
  readonly #orders: Readonly<Record<Lane, ServiceOrder<WaitingRecord>>>;

  /** @param readsFirst whether an update reads the relation first: the mapping has kept fields. */
  constructor(changes: readonly Change[], live: ServiceOrder, readsFirst: boolean) {
    this.#changes = changes;
    this.#readsFirst = readsFirst;
    this.settledAt = new Float64Array(changes.length);
    this.#orders = {
      live: live as ServiceOrder<WaitingRecord>,
      bulk: new RankedOrder<WaitingRecord>(() => 0),
    };
  }

  count(lane: Lane): number {
    return this.#orders[lane].size;
  }

  /** @returns whether it waits, so that it counts as demand. */
  arrive(index: number): boolean {
    const change = this.#changes[index] as Change;
    const record = this.#stateOf(change.record);
    const { waiting } = record;
    const isKnown = change.state !== undefined && change.state === record.proven;
    if (isKnown && !record.busy) {
      if (waiting !== undefined) this.#end(record, waiting, change.at);
      this.settledAt[index] = change.at;
      this.counts.coalesced += waiting?.changes.length ?? 0;
      this.counts.unchanged += 1;
      return false;
    }
    if (waiting === undefined) {
      record.waiting = this.#begin(change, index);
      if (!record.busy) this.#orders[record.waiting.lane].add(record.waiting);
    } else {
      this.#coalesce(waiting, change, index, record.busy);
    }
    return true;
  }

  take(lane: Lane, now: number): Taken {
    const waiting = this.#orders[lane].first(now);
    if (waiting === undefined) throw new Error(`no record of the lane ${lane} waits`);
    this.#orders[lane].remove(waiting);
    const record = this.#stateOf(waiting.record);
    record.waiting = undefined;
    record.busy = true;
    return { record: waiting.record, waiting };
  }

  /** The reply to the request for a taken record has come. */
  answered({ record: number, waiting: sent }: Taken, now: number): void {
    const record = this.#stateOf(number);
    record.busy = false;
    if (sent.bare || this.#mustRead(record, sent)) {
      // Read: what it was read for is written next, by a request of its own.
      record.waiting = record.waiting === undefined ? sent : merged(sent, record.waiting);
      record.waiting.bare = false;
      record.waiting.isRead = true;
    } else {
      this.#settle(sent, now);
      this.counts.sent += 1;
      this.counts.coalesced += sent.changes.length - 1;
      record.proven = sent.state;
      record.exists = true;
    }
    const next = record.waiting;
    if (next === undefined) return;
    this.#orders[next.lane].add(next);
    if (next.state === undefined || next.state !== record.proven) return;
    this.#end(record, next, now);
    this.counts.unchanged += 1;
    this.counts.coalesced += next.changes.length - 1;
  }

  #mustRead({ exists }: RecordState, { creates, isRead }: WaitingRecord): boolean {
    return this.#readsFirst && !isRead && (exists || !creates);
  }

  #stateOf(number: number): RecordState {
    const known = this.#records.get(number);
    if (known !== undefined) return known;
    const record = { waiting: undefined, busy: false, proven: undefined, exists: false };
    this.#records.set(number, record);
    return record;
  }

  #begin(change: Change, index: number): WaitingRecord {
    const { at, record, state } = change;
    const bare = change.bare ?? false;
    const lane = laneOf(change);
    const known = { lane, bare, creates: change.creates ?? false, isRead: false, state };
    return { record, changes: [index], first: at, newest: at, sum: at, ...known };
  }

  #coalesce(waiting: WaitingRecord, change: Change, index: number, busy: boolean): void {
    waiting.changes.push(index);
    waiting.newest = change.at;
    waiting.sum += change.at;
    waiting.state = change.state;
    waiting.bare &&= change.bare ?? false;
    const promoted = waiting.lane === "bulk" && laneOf(change) === "live";
    if (busy) {
      if (promoted) waiting.lane = "live";
    } else if (promoted) {
      this.#orders.bulk.remove(waiting);
      waiting.lane = "live";
      this.#orders.live.add(waiting);
    } else {
      this.#orders[waiting.lane].changed(waiting);
    }
  }

  /** A waiting record needs no request any more. */
  #end(record: RecordState, waiting: WaitingRecord, now: number): void {
    this.#orders[waiting.lane].remove(waiting);
    this.#settle(waiting, now);
    record.waiting = undefined;
  }

  #settle({ changes }: Waiting, now: number): void {
    for (const index of changes) this.settledAt[index] = now;
  }
}

/** A state that was taken, and the newer one that has come meanwhile. */
const merged = (older: WaitingRecord, newer: WaitingRecord): WaitingRecord => ({
  ...newer,
  changes: [...older.changes, ...newer.changes],
  first: older.first,
  sum: older.sum + newer.sum,
  lane: older.lane === "live" ? "live" : newer.lane,
});
