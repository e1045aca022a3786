/** Changes that cannot continue by themselves, kept until a person redrives or drops them. */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, redisWrites, type RedisScript } from "../ops/redis-script.ts";
import { deadLetterId, type DeadLetter } from "../sync/dead-letter.ts";
import { DamagedValue, type Sealing } from "./sealing.ts";
import type { Keys } from "./keys.ts";

/** Stands for an event that cannot be opened, so that one letter does not hide all others. */
const DAMAGED =
  "This event cannot be opened: somebody has changed it in Redis. Drop it, and send the record again.";

type Details = Omit<DeadLetter, "event" | "hasFields" | "newest" | "order">;

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

/** One value of the hash: store-dead-letter.lua says what its fields mean. */
interface StoredValue {
  details: string;
  event: string;
  order: string;
  eo?: string;
  of?: string;
  st?: "terminated" | "active";
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

export class DeadLetters {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #sealing: Sealing;
  readonly #store: RedisScript<"stored" | "superseded">;
  readonly #drop: RedisScript<number>;
  readonly #details: RedisScript<[cursor: string, bytes: number, ...(string | number)[]]>;

  constructor(redis: Redis, keys: Keys, sealing: Sealing) {
    this.#redis = redis;
    this.#keys = keys;
    this.#sealing = sealing;
    this.#store = redisScript(redis, new URL("./lua/store-dead-letter.lua", import.meta.url));
    this.#drop = redisScript(redis, new URL("./lua/drop-dead-letter.lua", import.meta.url));
    this.#details = redisScript(redis, new URL("./lua/dead-details.lua", import.meta.url));
  }

  /**
   * Stores a letter. If the record has one already, with newer fields or a newer status, the two are merged.
   * @returns `superseded` when newer fields and a newer status are known: it is not stored then.
   */
  async store(deadLetter: DeadLetter): Promise<"stored" | "superseded"> {
    const { event, hasFields, newest, order = "", ...details } = deadLetter;
    const crmCode = deadLetter.crmCode ?? "";
    return this.#store(
      [
        this.#keys.deadLetters,
        this.#keys.ledger,
        this.#keys.staged(crmCode),
        this.#keys.erased(crmCode),
        this.#keys.ledgerForgotten,
      ],
      [
        deadLetter.id,
        crmCode,
        newest?.order ?? order,
        deadLetter.at,
        // Scripts decode it, and Redis' decoder refuses half of a surrogate pair.
        JSON.stringify(details, (_name, value: unknown) =>
          typeof value === "string" ? value.toWellFormed() : value,
        ),
        await this.#sealing.seal(event, deadLetter.id),
        deadLetter.reason,
        order,
        hasFields === undefined ? "" : hasFields ? "1" : "0",
        newest?.status ?? "",
      ],
    );
  }

  count(): Promise<number> {
    return readOne(this.#redis, this.countReading());
  }

  countReading(): Reading<number> {
    return reading(["hlen", this.#keys.deadLetters], Number);
  }

  /** Reason → number of dead letters, as the scripts that store and delete them count. */
  reasons(): Reading<Record<string, number>> {
    return reading(["hgetall", this.#keys.deadReasons], (counts: Record<string, string>) =>
      Object.fromEntries(
        Object.entries(counts).map(([reason, count]) => [reason, Math.max(0, Number(count))]),
      ),
    );
  }

  /** Counts all of them again if the numbers by reason do not add up. @returns whether it did. */
  async recount(): Promise<boolean> {
    const known = Object.values(await this.#redis.hgetall(this.#keys.deadReasons)).map(Number);
    const sum = known.reduce((total, count) => total + count, 0);
    if (sum === (await this.count()) && known.every((count) => count >= 0)) return false;
    const counts: Record<string, number> = {};
    for await (const { reason } of this.details()) counts[reason] = (counts[reason] ?? 0) + 1;
    const key = this.#keys.deadReasons;
    const entries = Object.entries(counts);
    await redisWrites(this.#redis)([
      ["DEL", key],
      ...entries.map(([reason, count]) => ["HSET", key, reason, count] as const),
    ]);
    return true;
  }

  /** How many bytes it has in Redis; 0: it is gone. */
  lengthOf(id: string): Promise<number> {
    return this.#redis.hstrlen(this.#keys.deadLetters, id);
  }

  /** A text stands in the place of a damaged event. @throws UnknownKey */
  async find(id: string): Promise<StoredDeadLetter | undefined> {
    const text = await this.#redis.hget(this.#keys.deadLetters, id);
    return text === null ? undefined : this.#read(text);
  }

  /** The letters of these ids that are still there, in this order, a few at a time; see `find`. */
  async *read(ids: readonly string[]): AsyncGenerator<StoredDeadLetter> {
    for (let from = 0; from < ids.length; from += READ_BATCH) {
      const batch = ids.slice(from, from + READ_BATCH);
      const texts = await this.#redis.hmget(this.#keys.deadLetters, ...batch);
      for (const text of texts) if (text !== null) yield await this.#read(text);
    }
  }

  /** All dead letters without their events, in no order, each once, a page at a time. */
  async *details(): AsyncGenerator<LetterDetails> {
    const seen = new Set<string>();
    let cursor = "0";
    let most = FEWEST;
    do {
      const [next, bytes, ...flat] = await this.#details([this.#keys.deadLetters], [cursor, most]);
      cursor = next;
      for (let i = 0; i + 2 < flat.length; i += 3) {
        const details = JSON.parse(String(flat[i])) as Details;
        // A scan may return a letter twice.
        if (seen.has(details.id)) continue;
        seen.add(details.id);
        yield { ...details, firstAt: Number(flat[i + 1]), times: Number(flat[i + 2]) };
      }
      const each = bytes / Math.max(1, flat.length / 3);
      most = Math.min(MOST, 2 * most, Math.max(FEWEST, Math.round(DETAILS_BYTES / (each + 1))));
    } while (cursor !== "0");
  }

  /** All dead letters, in no order, a few at a time; in place of a damaged event a text. */
  async *all(): AsyncGenerator<StoredDeadLetter> {
    const ids: string[] = [];
    for await (const { id } of this.details()) ids.push(id);
    yield* this.read(ids);
  }

  async drop(id: string): Promise<boolean> {
    return (await this.#drop([this.#keys.deadLetters], [id, "any"])) === 1;
  }

  /** Drops a dead letter, unless it has changed since it was read. */
  async dropRead({ id, raw }: StoredDeadLetter): Promise<boolean> {
    return (await this.#drop([this.#keys.deadLetters], [id, "raw", raw])) === 1;
  }

  /** Drops the dead letter of a record, unless it is newer than an event of this order. */
  async dropOlder(crmCode: string, order: string): Promise<boolean> {
    const id = deadLetterId(crmCode);
    return (await this.#drop([this.#keys.deadLetters], [id, "order", order])) === 1;
  }

  async #read(text: string): Promise<StoredDeadLetter> {
    const stored = JSON.parse(text) as StoredValue;
    const details = JSON.parse(stored.details) as Details;
    const event = await this.#sealing.open(stored.event, details.id).catch((error: unknown) => {
      if (error instanceof DamagedValue) return DAMAGED;
      throw error;
    });
    const { eo, first, of, order, st, times } = stored;
    return {
      ...details,
      event,
      order: order === "" ? undefined : (eo ?? order),
      hasFields: of === undefined ? undefined : of !== "",
      newest: of === undefined ? undefined : { order, status: st ?? "mapped" },
      firstAt: first,
      times,
      raw: text,
    };
  }
}
