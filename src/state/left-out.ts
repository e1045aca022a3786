/**
 * Records that were sent without a value, because the tenant's lists do not have it: each with its newest event,
 * which is accepted again once a list has more values. Written in the step that stages the record.
 */
import { hashReading, type Reading } from "../ops/redis-reading.ts";
import type { StateToStage } from "../sync/record.ts";
import type { Call } from "./store.ts";
import { OfRecords } from "./record-store.ts";
import { scanHash } from "./scan.ts";

/** Of more records only the fields are kept, without the event: an event has a kilobyte and more. */
const MOST_EVENTS = 10_000;

/** For how long a record is kept, ms. */
const KEPT_MS = 30 * 24 * 3_600_000;

/** Entries read at once: each may have an event of 1 MiB. */
const PAGE = 20;

/** Begins the id by which `Inbox.redrive` names the event of such a record. */
const ID = "l:";

interface Entry {
  readonly fields: readonly string[];
  readonly order: string;
  /** When it was staged, ms. */
  readonly at: number;
  /** Sealed; absent beyond MOST_EVENTS. */
  readonly event?: string;
}

/** An event to be accepted again, in its place among those of its record. */
export interface LeftOutEvent {
  readonly id: string;
  readonly crmCode: string;
  readonly event: string;
  readonly order: string;
  readonly firstAt: number;
  /** As a dead letter has it: there is none. */
  readonly raw: "";
}

export class LeftOutRecords extends OfRecords {
  /** What `callsOf` needs to know. */
  readsOf({ crmCode, leftOut: fields = [] }: StateToStage): Call[] {
    const { leftOut } = this.keys;
    const entry = ["HGET", leftOut, crmCode] as const;
    return fields.length === 0 ? [entry] : [entry, ["HLEN", leftOut]];
  }

  /** @param state with its event sealed. */
  callsOf(state: StateToStage, before: string | null, now: number, count = 0): Call[] {
    const { crmCode, event, fieldsOrder, leftOut: fields = [], order, payload, status } = state;
    // An event without fields tells nothing of what the record lacks.
    if (payload === undefined && status !== "terminated") return [];
    const dropped = this.dropCalls(crmCode, before);
    if (fields.length === 0) return dropped;
    const keepsEvent = before !== null || count < MOST_EVENTS;
    const own = { fields, order: fieldsOrder ?? order, at: now };
    const entry: Entry = keepsEvent ? { ...own, event } : own;
    return [
      ...dropped,
      ["HSET", this.keys.leftOut, crmCode, JSON.stringify(entry)],
      ...this.#counts(fields, 1),
    ];
  }

  dropCalls(crmCode: string, before: string | null): Call[] {
    if (before === null) return [];
    const { fields } = JSON.parse(before) as Entry;
    return [["HDEL", this.keys.leftOut, crmCode], ...this.#counts(fields, -1)];
  }

  #counts(fields: readonly string[], by: number): Call[] {
    return fields.map((field) => ["HINCRBY", this.keys.leftOutCounts, field, by]);
  }

  /** Field → how many records were sent without a value of it. */
  countsReading(): Reading<Readonly<Record<string, number>>> {
    return hashReading(this.keys.leftOutCounts, Number);
  }

  /** Undefined for the id of a dead letter. */
  codeIn = (id: string): string | undefined =>
    id.startsWith(ID) ? id.slice(ID.length) : undefined;

  /** @throws UnknownKey, DamagedValue */
  async find(crmCode: string): Promise<LeftOutEvent | undefined> {
    const text = await this.redis.hget(this.keys.leftOut, crmCode);
    const { at, event, order } = text === null ? NO_ENTRY : (JSON.parse(text) as Entry);
    if (event === undefined) return undefined;
    const opened = await this.sealing.open(event, crmCode);
    return { id: `${ID}${crmCode}`, crmCode, event: opened, order, firstAt: at, raw: "" };
  }

  /** All of them. `id`: undefined where the event was not kept. */
  async *all() {
    for await (const page of scanHash(this.redis, this.keys.leftOut, PAGE)) {
      for (const [crmCode, text] of page) {
        const { at, event, fields } = JSON.parse(text) as Entry;
        yield {
          crmCode,
          fields,
          at,
          id: event === undefined ? undefined : `${ID}${crmCode}`,
          text,
        };
      }
    }
  }

  /** @param read what `all` has yielded, or the present one. */
  async drop(crmCode: string, read?: string): Promise<void> {
    const key = this.keys.leftOut;
    const text = read ?? (await this.redis.hget(key, crmCode));
    if (text === null) return;
    const isSame = ["HGET", key, crmCode, text] as const;
    await this.commit([isSame], this.dropCalls(crmCode, text));
  }

  /** Drops the records that have been here for too long. */
  async expire(now: number): Promise<void> {
    for await (const { at, crmCode, text } of this.all()) {
      if (now - at > KEPT_MS) await this.drop(crmCode, text);
    }
  }
}

const NO_ENTRY: Entry = { fields: [], order: "", at: 0 };
