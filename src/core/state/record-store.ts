/**
 * The one way in which a record is changed: it is read, a reducer (src/core/sync/) makes the new one, and that is
 * written in one step if nothing has changed meanwhile; else it is read again. The rules are in the reducers,
 * none in Redis.
 */
import { deadLetterId } from "../sync/dead-letter.ts";
import type { Lane } from "../event/lane.ts";
import { type LedgerRow, NO_ORDERS, rowWithoutProof, type Orders } from "../sync/ledger-row.ts";
import { isSent } from "../sync/known.ts";
import type { Change, HeldWhy, KnownRecord, LetterMark, Now } from "../sync/record.ts";
import { VERIFY_AFTER_MS } from "../sync/run.ts";
import type { Redis } from "ioredis";
import { objectIn, readAll, type Call, type Check, Store } from "./store.ts";
import { digestOf, type Keys } from "./keys.ts";
import { History } from "./history.ts";
import type { Sealing } from "./sealing.ts";
import type { ToldOutcomes } from "./told-outcomes.ts";

/** A row of the ledger as Redis has it: JSON, without what its absence says. */
interface StoredRow extends Partial<Omit<LedgerRow, "orders" | "pace" | "provedAt">> {
  readonly provedAt: number;
  /** Of the status register, and of the fields where that differs. */
  readonly order?: string;
  readonly fields?: string;
  readonly is?: Orders["is"];
  readonly changedAt?: number;
  readonly gapMs?: number;
  /** Counts how often the whole ledger was forgotten: a proof from before that is not believed. */
  readonly epoch: number;
}

export function storeRow({ orders, pace, ...row }: LedgerRow, epoch: number): string {
  const { fields, is, status } = orders;
  // JSON leaves out what is undefined.
  return JSON.stringify({
    exists: row.exists,
    uncertain: row.uncertain || undefined,
    openUntil: row.openUntil,
    written: row.written || undefined,
    fingerprint: row.fingerprint,
    filled: row.filled,
    marks: row.marks,
    partial: row.partial,
    terminated: row.terminated || undefined,
    variant: row.variant,
    byList: row.byList || undefined,
    order: status || undefined,
    fields: fields === status ? undefined : fields,
    is: is === "mapped" ? undefined : is,
    provedAt: row.provedAt,
    writer: row.writer,
    without: row.without,
    since: row.since,
    ...pace,
    epoch,
  });
}

/** @param epoch the present one: of an older row, only what events have settled, and what is open, is still true. */
export function readRow(text: string, epoch: number): LedgerRow {
  const stored = JSON.parse(text) as StoredRow;
  const { order = "", fields = order, is = "mapped", provedAt, ...others } = stored;
  const { changedAt, epoch: ofRow, gapMs, openUntil, without, writer, ...proof } = others;
  return {
    ...rowWithoutProof(false),
    ...(ofRow === epoch && proof),
    ...(openUntil !== undefined && { uncertain: true, openUntil }),
    orders: order === "" ? NO_ORDERS : { status: order, fields, is },
    provedAt,
    ...(writer !== undefined && { writer }),
    ...(without !== undefined && { without }),
    ...(changedAt !== undefined && { pace: { changedAt, gapMs } }),
  };
}

/** Undefined for what somebody has damaged: it is as good as gone. */
export const changeIn = (text: string | null | undefined): Change | undefined =>
  text ? (objectIn(text) as unknown as Change | undefined) : undefined;

/** What scripts read of a change that waits: how it is counted, and where `next` puts it. */
export interface Place {
  readonly lane: Lane;
  readonly place: number;
  readonly since: number;
  /** Since when its tries fail. */
  readonly failing?: number | undefined;
  readonly taken?: true | undefined;
  readonly held?: HeldWhy | undefined;
  /** It is on the service, and only read once more. */
  readonly sent?: true | undefined;
}

const placeOf = (change: Change): Place => ({
  lane: change.lane,
  place: change.place,
  since: change.since,
  failing: change.tries?.since,
  taken: change.taken && true,
  held: change.held?.why,
  sent: isSent(change) || undefined,
});

/** How often a change is made anew because another process was faster. */
const MOST_CONFLICTS = 50;

/** A record as it was read, with the texts that must be the same when it is written. */
export interface ReadRecord extends KnownRecord, Now {
  readonly crmCode: string;
  readonly version: string;
  readonly rowText: string;
  readonly markText: string;
  /** What `crmsync forget` has left of it; "": nothing. */
  readonly erasedText: string;
  readonly epoch: number;
  /** Replies to the further reads that the caller asked for. */
  readonly more: readonly unknown[];
}

/** A record as this process has written it, and when, by performance.now(). */
export interface WrittenRecord {
  readonly record: ReadRecord;
  readonly at: number;
}

/** What a change makes of a record. */
export interface Changed<Outcome> {
  /** Undefined: the record stays as it is. */
  readonly record: KnownRecord | undefined;
  readonly outcome: Outcome;
  /** What else must not have changed since it was read. */
  readonly checks?: readonly Check[];
  /** What else is written in the same step. Without a record, it is written whatever has happened to the record. */
  readonly calls?: readonly Call[] | undefined;
}

export const unchanged = <Outcome>(outcome: Outcome): Changed<Outcome> => ({
  record: undefined,
  outcome,
});

/** Its row was erased, and may have been listed since: whether the relation exists is unknown, its orders are not. */
const withErased = (listed: LedgerRow | undefined, erased: LedgerRow): LedgerRow => {
  if (listed === undefined) return erased;
  const { openUntil, orders, uncertain } = erased;
  return { ...listed, orders, uncertain: uncertain || listed.uncertain, openUntil };
};

/** The same record, later. */
function atPresent({ at, record }: WrittenRecord): ReadRecord {
  const nowUs = record.nowUs + Math.round((performance.now() - at) * 1000);
  return { ...record, nowUs, now: Math.floor(nowUs / 1000), more: [] };
}

export interface RecordStoreOptions {
  /** Absent: none is kept. */
  readonly history?: History;
  /** What is told of records; absent: nothing is. */
  readonly told?: ToldOutcomes;
  readonly verifyMs?: number;
}

export class RecordStore extends Store {
  readonly sealing: Sealing;
  readonly history: History;
  readonly told: ToldOutcomes | undefined;
  readonly verifyMs: number;

  constructor(
    redis: Redis,
    keys: Keys,
    sealing: Sealing,
    { history, told, verifyMs = VERIFY_AFTER_MS }: RecordStoreOptions = {},
  ) {
    super(redis, keys);
    this.sealing = sealing;
    this.history = history ?? new History(redis, keys, 0);
    this.told = told;
    this.verifyMs = Math.ceil(verifyMs);
  }

  /** @throws when other processes change it again and again. */
  async change<Outcome>(
    crmCode: string,
    more: readonly Call[],
    reduce: (read: ReadRecord) => Changed<Outcome>,
  ): Promise<Outcome> {
    return (await this.changeKnown(crmCode, more, reduce)).outcome;
  }

  /**
   * As `change`.
   * @param known as this process has written it last: it is not read if it is still so.
   * @returns also the record as it is written.
   */
  async changeKnown<Outcome>(
    crmCode: string,
    more: readonly Call[],
    reduce: (read: ReadRecord) => Changed<Outcome>,
    known?: WrittenRecord,
  ): Promise<{ readonly outcome: Outcome; readonly written: WrittenRecord }> {
    for (let conflicts = 0; conflicts < MOST_CONFLICTS; conflicts += 1) {
      const isKnown = conflicts === 0 && known !== undefined;
      const read = isKnown ? atPresent(known) : await this.read(crmCode, more);
      const { calls: further = [], checks = [], outcome, record } = reduce(read);
      const after = record === undefined ? read : this.#after(read, record);
      const written = { record: after, at: performance.now() };
      const told = record === undefined ? [] : this.told?.callsOfChange(crmCode, read, after);
      const calls = [...further, ...(told ?? [])];
      const writes = this.#writes(read, after);
      if (writes.length + calls.length === 0) return { outcome, written };
      const all = record === undefined ? checks : [...this.checksOf(read), ...checks];
      if (await this.commit(all, [...writes, ...calls])) return { outcome, written };
    }
    throw new Error("a record was changed again and again while it was to be written");
  }

  async read(crmCode: string, more: readonly Call[] = []): Promise<ReadRecord> {
    const { deadMarks, erased, ledger, staged, warmUp } = this.keys;
    const [time, fields, row, mark, listed, ...rest] = (await readAll(this.redis, [
      ["TIME"],
      ["HMGET", staged(crmCode), "version", "state"],
      ["HGET", ledger, crmCode],
      ["HGET", deadMarks, deadLetterId(crmCode)],
      ["HMGET", warmUp, "state", "epoch"],
      ...more,
    ])) as [
      [seconds: string, micros: string],
      (string | null)[],
      string | null,
      string | null,
      (string | null)[],
      ...unknown[],
    ];
    const epoch = Number(listed[1] ?? 0);
    const listedRow = row === null ? undefined : readRow(row, epoch);
    const hasOrders = listedRow !== undefined && listedRow.orders.status !== "";
    const erasedText = hasOrders ? null : await this.redis.get(erased(crmCode));
    const nowUs = Number(time[0]) * 1_000_000 + Number(time[1]);
    const state = fields[1];
    return {
      crmCode,
      version: fields[0] ?? "",
      rowText: row ?? "",
      markText: mark ?? "",
      erasedText: erasedText ?? "",
      epoch,
      row: erasedText === null ? listedRow : withErased(listedRow, readRow(erasedText, epoch)),
      staged: changeIn(state),
      letter: mark === null ? undefined : (JSON.parse(mark) as LetterMark),
      now: Math.floor(nowUs / 1000),
      nowUs,
      verifyMs: this.verifyMs,
      warm: listed[0] === "done",
      more: rest,
    };
  }

  /** What a change rests on. */
  checksOf({ crmCode, epoch, markText, rowText, version }: ReadRecord): Check[] {
    const { deadMarks, ledger, staged, warmUp } = this.keys;
    return [
      ["HGET", staged(crmCode), "version", version],
      ["HGET", ledger, crmCode, rowText],
      ["HGET", deadMarks, deadLetterId(crmCode), markText],
      ["HGET", warmUp, "epoch", epoch === 0 ? "" : String(epoch)],
    ];
  }

  /** The record as it is read once a change was written. */
  #after(read: ReadRecord, { letter, row, staged }: KnownRecord): ReadRecord {
    // Grows with each write, also while the state stays the same one.
    const version = String(Math.max(read.nowUs, Number(read.version) + 1));
    const rowText = row === undefined ? "" : storeRow(row, read.epoch);
    return {
      ...read,
      row,
      staged,
      letter,
      version: staged === read.staged ? read.version : staged === undefined ? "" : version,
      rowText: row === read.row ? read.rowText : rowText,
      markText: letter === read.letter ? read.markText : letter ? JSON.stringify(letter) : "",
    };
  }

  /** What makes the record in Redis the new one. */
  #writes(read: ReadRecord, after: ReadRecord): Call[] {
    const { crmCode } = read;
    const { deadMarks, erased, fieldUpdates, ledger, staged } = this.keys;
    const id = deadLetterId(crmCode);
    const calls: Call[] = [];
    if (after.staged !== read.staged) {
      if (after.staged === undefined) calls.push(["DEL", staged(crmCode)]);
      else {
        const [text, place] = [after.staged, placeOf(after.staged)].map((one) =>
          JSON.stringify(one),
        );
        calls.push([
          "HSET",
          staged(crmCode),
          "version",
          after.version,
          "state",
          text ?? "",
          "place",
          place ?? "",
        ]);
      }
      calls.push(...this.placeCalls(crmCode, read.staged, after.staged, read.now));
      const wasHeld = read.staged?.held?.why === "emptied";
      // An update that was held has emptied nothing: remove it from the count of the guard.
      if (wasHeld && after.staged?.held === undefined)
        calls.push(["ZADD", fieldUpdates, read.now, `  ${digestOf(crmCode)}`]);
    }
    if (after.rowText !== read.rowText) {
      if (after.rowText === "") calls.push(["HDEL", ledger, crmCode]);
      else calls.push(["HSET", ledger, crmCode, after.rowText]);
      if (read.erasedText !== "") calls.push(["DEL", erased(crmCode)]);
    }
    if (after.markText !== read.markText && read.letter !== undefined) {
      if (after.letter === undefined) calls.push(...this.dropLetterCalls(id, read.letter));
      else calls.push(["HSET", deadMarks, id, after.markText]);
    }
    return calls;
  }

  /** Moves a record to the one sorted set in which it is found; `next` may have moved it since it was read. */
  placeCalls(
    crmCode: string,
    before: Change | undefined,
    after: Change | undefined,
    now: number,
  ): Call[] {
    const { heldTerminations, later, line } = this.keys;
    const { due = 0, held, lane = "live", place = now } = after ?? {};
    const own = held ? heldTerminations : due > now ? later : line(lane);
    const score = held ? held.at : due > now ? due : place;
    // `next` moves no record while a worker has it.
    const isTaken = (before?.taken?.until ?? 0) > now;
    const waits = isTaken ? [later] : [line(before?.lane ?? lane), later];
    const old = before && (before.held ? [heldTerminations] : waits);
    return [
      ...(old ?? [])
        .filter((key) => after === undefined || key !== own)
        .map((key) => ["ZREM", key, crmCode] as const),
      ...(after === undefined ? [] : [["ZADD", own, score, crmCode] as const]),
    ];
  }

  /** Deletes a dead letter, and counts it out. */
  dropLetterCalls(id: string, { reason }: LetterMark): Call[] {
    const { deadAges, deadLetters, deadMarks, deadReasons } = this.keys;
    return [
      ["HDEL", deadLetters, id],
      ["HDEL", deadMarks, id],
      ["ZREM", deadAges, id],
      ["HINCRBY", deadReasons, reason, -1],
    ];
  }
}

/** A store of what records have beside themselves, or of some of them. */
export abstract class OfRecords extends Store {
  protected readonly records: RecordStore;
  protected readonly sealing: Sealing;

  constructor(records: RecordStore) {
    super(records.redis, records.keys);
    this.records = records;
    this.sealing = records.sealing;
  }
}
