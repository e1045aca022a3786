/** Changes that cannot continue by themselves, kept until a person redrives or drops them. */
import { hashReading, readOne, reading, type Reading } from "../../base/redis-reading.ts";
import { deadLetterId, type DeadLetter } from "../sync/dead-letter.ts";
import { storeLetter } from "../sync/letter.ts";
import { rejectionOf } from "../sync/told.ts";
import type { LetterMark } from "../sync/record.ts";
import type { Call } from "./store.ts";
import { OfRecords, unchanged } from "./record-store.ts";
import { DamagedValue } from "./sealing.ts";

/** Stands for an event that cannot be opened, so that one letter does not hide all others. */
const DAMAGED =
  "This event cannot be opened: somebody has changed it in Redis. Drop it, and send the record again.";

type Details = Omit<DeadLetter, "event" | "hasFields" | "newest" | "order" | "owner">;

/** A dead letter without its event and its place among the events of its record. */
export interface LetterDetails extends Details {
  readonly firstAt: number;
  /** How often one was stored under this id. */
  readonly times: number;
}

export interface StoredDeadLetter extends LetterDetails, DeadLetter {
  /** The value as Redis has it. */
  readonly raw: string;
}

/** One value of the hash. What the letter knows of its record's events lies beside it, in `deadMarks`. */
interface StoredValue {
  /** The rest of the letter, JSON. */
  details: string;
  /** Sealed. */
  event: string;
  /** When a letter of this id was first stored, ms, and how often one was. */
  first: number;
  times: number;
}

/** One script call reads about this many bytes, which takes Redis about a millisecond. */
const DETAILS_BYTES = 131_072;

/** Fewest and most letters that one script call reads; an event has up to 1 MiB. */
const FEWEST = 4;
const MOST = 500;

/** Letters that are read with their events in one command: each may hold megabytes. */
const READ_BATCH = 5;

export class DeadLetters extends OfRecords {
  readonly #details =
    this.script<[cursor: string, bytes: number, ...(string | number)[]]>("dead-details");

  /**
   * Stores a letter. If the record has one already, with newer fields or a newer status, the two are merged.
   * @returns `superseded` when newer fields and a newer status are known: it is not stored then.
   */
  async store(deadLetter: DeadLetter): Promise<"stored" | "superseded"> {
    const { event, hasFields, newest, order = "", owner, ...details } = deadLetter;
    const { at, crmCode, id, reason, source, subject } = deadLetter;
    const { told } = this.records;
    const about = await told?.seal(id, { source, subject, owner });
    const rejection = { ...rejectionOf(deadLetter), about };
    const { deadLetters, deadMarks, deadTime } = this.keys;
    const own = {
      // Scripts decode it, and Redis' decoder refuses half of a surrogate pair.
      details: JSON.stringify(details, (_name, value: unknown) =>
        typeof value === "string" ? value.toWellFormed() : value,
      ),
      event: await this.sealing.seal(event, id),
    };
    const letter = {
      order: newest?.order ?? order,
      is: newest?.status ?? "mapped",
      event: order,
      hasFields,
      reason,
    } as const;
    const more: Call[] = [
      ["HGET", deadLetters, id],
      ["HGET", deadMarks, id],
      ["HGET", deadTime, "counted"],
    ];
    return this.records.change(crmCode ?? "", more, (read) => {
      const [text, markText, counted] = read.more as (string | null)[];
      const mark = markText == null ? undefined : (JSON.parse(markText) as LetterMark);
      const stored = storeLetter(letter, { ...read, letter: mark });
      if (stored.kind === "superseded") return unchanged("superseded");
      const before = text == null ? undefined : (JSON.parse(text) as StoredValue);
      const value: StoredValue = {
        details: stored.keepsDetails && before ? before.details : own.details,
        event: stored.keepsEvent && before ? before.event : own.event,
        first: before?.first ?? at,
        times: (before?.times ?? 0) + 1,
      };
      return {
        // The mark is written below, also where no record is known.
        record: { row: read.row, staged: read.staged, letter: read.letter },
        outcome: "stored",
        checks: [["HGET", deadMarks, id, markText ?? ""]],
        calls: [
          ...(mark === undefined ? [] : this.records.dropLetterCalls(id, mark)),
          ["HSET", deadLetters, id, JSON.stringify(value)],
          ["HSET", deadMarks, id, JSON.stringify({ ...stored.mark, about })],
          ["HINCRBY", this.keys.deadReasons, stored.mark.reason, 1],
          ["ZADD", this.keys.deadAges, Number(counted ?? 0), id],
          ...(told === undefined || subject === "" ? [] : told.callsOf(id, rejection)),
        ],
      };
    });
  }

  count(): Promise<number> {
    return readOne(this.redis, this.countReading());
  }

  countReading(): Reading<number> {
    return reading(["hlen", this.keys.deadLetters], Number);
  }

  /** Reason → number of dead letters, as the scripts that store and delete them count. */
  reasons(): Reading<Record<string, number>> {
    return hashReading(this.keys.deadReasons, (count) => Math.max(0, Number(count)));
  }

  /** Counts all of them again if the numbers by reason do not add up. @returns whether it did. */
  async recount(): Promise<boolean> {
    const known = Object.values(await this.redis.hgetall(this.keys.deadReasons)).map(Number);
    const sum = known.reduce((total, count) => total + count, 0);
    if (sum === (await this.count()) && known.every((count) => count >= 0)) return false;
    const counts: Record<string, number> = {};
    for await (const { reason } of this.details()) counts[reason] = (counts[reason] ?? 0) + 1;
    const key = this.keys.deadReasons;
    const entries = Object.entries(counts);
    await this.writes([
      ["DEL", key],
      ...entries.map(([reason, count]) => ["HSET", key, reason, count] as const),
    ]);
    return true;
  }

  /** A text stands in the place of a damaged event. @throws UnknownKey */
  async find(id: string): Promise<StoredDeadLetter | undefined> {
    for await (const letter of this.read([id])) return letter;
    return undefined;
  }

  /** The letters of these ids that are still there, in this order, a few at a time; see `find`. */
  async *read(ids: readonly string[]): AsyncGenerator<StoredDeadLetter> {
    for (let from = 0; from < ids.length; from += READ_BATCH) {
      const batch = ids.slice(from, from + READ_BATCH);
      const [texts, marks] = await Promise.all([
        this.redis.hmget(this.keys.deadLetters, ...batch),
        this.redis.hmget(this.keys.deadMarks, ...batch),
      ]);
      for (const [index, text] of texts.entries()) {
        if (text !== null) yield await this.#read(text, marks[index] ?? null);
      }
    }
  }

  /** All dead letters without their events, in no order, each once, a page at a time. */
  async *details(): AsyncGenerator<LetterDetails> {
    const seen = new Set<string>();
    let [cursor, most] = ["0", FEWEST];
    do {
      const page = await this.detailsFrom(cursor, most);
      [cursor, most] = [page.next, page.most];
      for (const letter of page.letters) {
        // A scan may return a letter twice.
        if (seen.has(letter.id)) continue;
        seen.add(letter.id);
        yield letter;
      }
    } while (cursor !== "0");
  }

  /**
   * Some dead letters without their events. A letter may come twice.
   * @param cursor "0": the first ones
   * @returns `next` "0": these were the last ones; `most`: so many are read in good time
   */
  async detailsFrom(cursor: string, most = FEWEST) {
    const [next, bytes, ...flat] = await this.#details([this.keys.deadLetters], [cursor, most]);
    const letters: LetterDetails[] = [];
    for (let i = 0; i + 2 < flat.length; i += 3) {
      const details = JSON.parse(String(flat[i])) as Details;
      letters.push({ ...details, firstAt: Number(flat[i + 1]), times: Number(flat[i + 2]) });
    }
    const each = bytes / Math.max(1, letters.length);
    const fits = Math.max(FEWEST, Math.round(DETAILS_BYTES / (each + 1)));
    return { letters, next, most: Math.min(MOST, 2 * most, fits) };
  }

  /** As `detailsFrom`, of one relation; undefined: it has none. */
  async detailsOf(crmCode: string): Promise<LetterDetails | undefined> {
    const text = await this.redis.hget(this.keys.deadLetters, deadLetterId(crmCode));
    if (text === null) return undefined;
    const { details, first, times } = JSON.parse(text) as StoredValue;
    return { ...(JSON.parse(details) as Details), firstAt: first, times };
  }

  /** All dead letters, in no order, a few at a time; in place of a damaged event a text. */
  async *all(): AsyncGenerator<StoredDeadLetter> {
    const ids: string[] = [];
    for await (const { id } of this.details()) ids.push(id);
    yield* this.read(ids);
  }

  /** Erases a person's letter; no outcome is sent. */
  async drop(id: string): Promise<boolean> {
    return this.#drop(id, () => true, false);
  }

  /** Drops a dead letter, unless it has changed since it was read. */
  async dropRead({ id, raw }: Pick<StoredDeadLetter, "id" | "raw">): Promise<boolean> {
    return this.#drop(id, (_, text) => text === raw);
  }

  /** Drops the dead letter of a record, unless it is newer than an event of this order. */
  async dropOlder(crmCode: string, order: string): Promise<boolean> {
    return this.#drop(deadLetterId(crmCode), (mark) => mark.order <= order);
  }

  async #drop(
    id: string,
    mayDrop: (mark: LetterMark, text: string) => boolean,
    isTold = true,
  ): Promise<boolean> {
    const { deadLetters, deadMarks } = this.keys;
    for (;;) {
      const [text, markText] = await Promise.all([
        this.redis.hget(deadLetters, id),
        this.redis.hget(deadMarks, id),
      ]);
      const mark = markText === null ? NO_MARK : (JSON.parse(markText) as LetterMark);
      if (text === null || !mayDrop(mark, text)) return false;
      const isSame = ["HGET", deadMarks, id, markText ?? ""] as const;
      const told = isTold ? await this.records.told?.callsOfDropped(id, mark) : [];
      const calls = [...this.records.dropLetterCalls(id, mark), ...(told ?? [])];
      if (await this.records.commit([isSame], calls)) return true;
    }
  }

  async #read(text: string, markText: string | null): Promise<StoredDeadLetter> {
    const stored = JSON.parse(text) as StoredValue;
    const details = JSON.parse(stored.details) as Details;
    const event = await this.sealing.open(stored.event, details.id).catch((error: unknown) => {
      if (error instanceof DamagedValue) return DAMAGED;
      throw error;
    });
    const mark = markText === null ? NO_MARK : (JSON.parse(markText) as LetterMark);
    const { fields } = mark;
    return {
      ...details,
      event,
      order: mark.order === "" ? undefined : mark.event,
      hasFields: fields === undefined ? undefined : fields !== "",
      newest: fields === undefined ? undefined : { order: mark.order, status: mark.is },
      firstAt: stored.first,
      times: stored.times,
      raw: text,
    };
  }
}

/** Of a letter whose record is not known. */
const NO_MARK: LetterMark = {
  order: "",
  is: "mapped",
  event: "",
  fields: undefined,
  reason: "defect",
};
