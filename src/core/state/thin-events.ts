/**
 * Thin events: their records must be fetched from a CRM. A job carries only the CRM and the
 * subject; the newest event lies beside it, so ten events of one record cost one fetch.
 */
import type { Job, Queue, QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { backoffMs, spread } from "../event/backoff.ts";
import { ownData, removeStuck, stuckJobs, type StuckJob } from "../event/job-data.ts";
import { openQueue } from "../event/open-queue.ts";
import type { Lane } from "../event/lane.ts";
import { digestOf, type Keys } from "./keys.ts";
import { pairsOf, scanHash, scanKeys } from "./scan.ts";
import { DamagedValue, type Sealing } from "./sealing.ts";
import { luaReading, objectIn, Store } from "./store.ts";

export const FETCH_QUEUE = "fetch";

export interface ThinPointer {
  /** Name of the CRM. */
  readonly crm: string;
  readonly subject: string;
  /** The fetch is to show whether the record is really deleted. It is apart from fetches of its changes. */
  readonly deletion?: true;
  /**
   * `part`: the records to which this one belongs are to be found out and fetched; one job is for all parts of an object.
   * `whole`: the fetch was requested because a part has changed, and waits for more such changes.
   */
  readonly role?: "part" | "whole";
  /** How often the record was older than the event of this order. The worker sets it. */
  readonly older?: { readonly order: string; readonly times: number };
}

export interface TakenThinEvent {
  /** The event, serialised; of a damaged one, an event that fetches its record anew. */
  readonly event: string;
  /** Empty where it is not known. */
  readonly order: string;
  /** Somebody has changed it in Redis. */
  readonly isDamaged: boolean;
  /** One of the events that ask for this fetch is live. */
  readonly isLive: boolean;
  /** The value as Redis has it. */
  readonly raw: string;
}

const PAUSES = { firstMs: 1000, longestMs: 300_000 };

/** The pause before the next try, ms. Half of it is random, so that tries spread. */
export const fetchPauseMs = (tries: number, random: () => number): number =>
  spread(backoffMs(tries, PAUSES), random());

/** BullMQ hands out jobs without a priority before those with one. */
const BULK_PRIORITY = 1;

/** What has not changed and was not fetched for so long is left to a comparison, s. */
const OWNERS_S = 365 * 86_400;

/** Fields of the hash that `parts` reads at once. */
const PAGE = 500;

/** Most fetches that `failures` looks at. */
const MOST_FAILED = 200;

export class ThinEvents extends Store {
  readonly queue: Queue<ThinPointer>;
  readonly #sealing: Sealing;

  constructor(
    redis: Redis,
    prefix: string,
    { keys, sealing }: { readonly keys: Keys; readonly sealing: Sealing },
    tracing: Pick<QueueOptions, "telemetry"> = {},
  ) {
    super(redis, keys);
    this.#sealing = sealing;
    this.queue = openQueue(FETCH_QUEUE, redis, {
      ...tracing,
      prefix,
      defaultJobOptions: {
        removeOnComplete: true,
        // A job fails only when its workers died again and again: the sweep then stores its event.
        removeOnFail: false,
        // The worker gives up after a time, not after a number of attempts.
        attempts: 1_000_000_000,
        backoff: { type: "custom" },
      },
    });
  }

  /**
   * Requests a fetch of the record. Several requests before the fetch cost one fetch.
   * @param waitMs so long the fetch waits for further requests
   */
  async put(
    pointer: ThinPointer,
    order: string,
    event: string,
    lane: Lane,
    waitMs = 0,
  ): Promise<void> {
    const field = fieldOf(pointer);
    const sealed = await this.#sealing.seal(event, field);
    const becameLive = await this.#keepNewer(field, order, sealed, lane);
    const job = await this.request(pointer, lane, waitMs);
    // The fetch may have ended meanwhile.
    if (becameLive) await job.changePriority({ priority: 0 }).catch(() => {});
  }

  /** Keeps the newer of two events. The record is live if one of them is. @returns whether it became live. */
  async #keepNewer(field: string, order: string, event: string, lane: Lane): Promise<boolean> {
    const { thinEvents } = this.keys;
    for (;;) {
      const text = await this.redis.hget(thinEvents, field);
      const read = objectIn(text ?? "");
      // Somebody has changed the stored value: the new event takes its place.
      const known = typeof read?.["order"] === "string" ? read : undefined;
      const isLive = lane === "live" || known?.["isLive"] === true;
      const becomesLive = known !== undefined && isLive && known["isLive"] !== true;
      const isOlder = known !== undefined && order < String(known["order"]);
      if (isOlder && !becomesLive) return false;
      const kept = { ...(isOlder ? known : { order, event }), ...(isLive && { isLive }) };
      if (await this.swap(thinEvents, field, text, JSON.stringify(kept))) return becomesLive;
    }
  }

  /** Adds the job of a thin event, or of all parts of an object, unless it is there. */
  request(pointer: ThinPointer, lane: Lane, waitMs = 0): Promise<Job<ThinPointer>> {
    const { crm, role, subject } = pointer;
    const all: ThinPointer = { crm, role: "part", subject: subject.replace(/\/.*/s, "/*") };
    const own = role === "part" ? all : pointer;
    return this.queue.add("fetch", own, {
      deduplication: { id: fieldOf(own), keepLastIfActive: true },
      ...(lane === "bulk" && { priority: BULK_PRIORITY }),
      ...(waitMs > 0 && { delay: waitMs }),
    });
  }

  /**
   * To which records a part belonged when it was last read, as subjects: of one that was deleted, or has got another owner,
   * the CRM does not say it any more.
   */
  ownersOf({ crm, subject }: ThinPointer): Promise<string[]> {
    return this.redis.smembers(this.keys.owners(crm, subject));
  }

  /** @param isAll it belongs to no others */
  async noteOwners({ crm, subject }: ThinPointer, owners: readonly string[], isAll = false) {
    const key = this.keys.owners(crm, subject);
    if (isAll) await this.writes([["DEL", key]]);
    if (owners.length > 0)
      await this.writes([
        ["SADD", key, ...owners],
        ["EXPIRE", key, OWNERS_S],
      ]);
  }

  /** Forgets these records as owners of parts. @param subjects records of the CRM */
  async forgetOwners(subjects: readonly string[]): Promise<void> {
    if (subjects.length === 0) return;
    for await (const page of scanKeys(this.redis, this.keys.owners("", "").slice(0, -1))) {
      for (const key of page) await this.redis.srem(key, ...subjects);
    }
  }

  /** Parts that wait, of the object of a job. @param most at least so many, if there are */
  async parts({ crm, subject }: ThinPointer, most: number): Promise<ThinPointer[]> {
    const start = fieldOf({ crm, role: "part", subject: subject.slice(0, -1) });
    const found = new Map<string, ThinPointer>();
    for await (const page of scanHash(this.redis, this.keys.thinEvents, PAGE)) {
      for (const [field] of page) {
        const part = field.slice(field.indexOf("|") + 1);
        if (field.startsWith(start)) found.set(field, { crm, role: "part", subject: part });
      }
      if (found.size >= most) break;
    }
    return [...found.values()];
  }

  async take(pointer: ThinPointer): Promise<TakenThinEvent | undefined> {
    const field = fieldOf(pointer);
    const raw = await this.redis.hget(this.keys.thinEvents, field);
    if (raw === null) return undefined;
    const { event, isLive, order } = objectIn(raw) ?? {};
    const text = typeof event === "string" ? await this.#open(event, field) : "";
    return isEvent(objectIn(text)) && typeof order === "string"
      ? { event: text, order, isLive: isLive === true, isDamaged: false, raw }
      : { event: eventOf(pointer), order: "", isLive: true, isDamaged: true, raw };
  }

  /** @returns an empty text for what somebody has changed. @throws UnknownKey */
  async #open(event: string, field: string): Promise<string> {
    return this.#sealing.open(event, field).catch((error: unknown) => {
      if (error instanceof DamagedValue) return "";
      throw error;
    });
  }

  /** Whether the record has a fetch beside this one. */
  async hasOtherJob(pointer: ThinPointer, id: string | undefined): Promise<boolean> {
    const other = await this.queue.getDeduplicationJobId(fieldOf(pointer));
    return other !== null && other !== id;
  }

  /** Deletes a fetched thin event, unless a newer one has come since `take`. */
  async finish(pointer: ThinPointer, taken: TakenThinEvent): Promise<void> {
    await this.swap(this.keys.thinEvents, fieldOf(pointer), taken.raw, undefined);
  }

  /** Jobs that no worker will end, so that the sweep must. */
  stuck(): AsyncIterable<StuckJob> {
    return stuckJobs(this.redis, this.queue);
  }

  removeStuck(id: string): Promise<void> {
    return removeStuck(this.redis, this.queue, id);
  }

  /** The CRMs that do not return records, by the fetches whose next try is due first. */
  failures() {
    const keys = [this.queue.toKey("delayed")];
    const args = [this.queue.toKey(""), String(MOST_FAILED)];
    return luaReading("delayed-jobs", keys, args, (flat: string[]) => {
      /** CRM → why the fetch that is tried next has failed, and how many records were looked at. */
      const found = new Map<string, { why: string; records: number }>();
      for (const [failedReason, data] of pairsOf(flat)) {
        const crm = thinPointerOf(data)?.crm;
        if (failedReason === "" || crm === undefined) continue;
        const why = /\(([^()]*)\)$/.exec(failedReason)?.[1] ?? "no reason given";
        const known = found.get(crm);
        found.set(crm, { why: known?.why ?? why, records: (known?.records ?? 0) + 1 });
      }
      return [...found].map(([crm, failure]) => ({ crm, ...failure }));
    });
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

/** What a job is to fetch; undefined for a job of another kind, which another client may have added. */
export function thinPointerIn(job: Pick<Job, "data">): ThinPointer | undefined {
  return asThinPointer(ownData(job));
}

/** @param data of a job, as it lies in Redis. @returns undefined for a job of another kind. */
export const thinPointerOf = (data: string): ThinPointer | undefined =>
  asThinPointer(objectIn(data));

function asThinPointer(data: unknown): ThinPointer | undefined {
  const { crm, subject } = (data ?? {}) as Partial<Record<keyof ThinPointer, unknown>>;
  const isPointer = typeof crm === "string" && typeof subject === "string";
  return isPointer ? (data as ThinPointer) : undefined;
}

/** Whether it has what the worker reads of an event, which was checked when it was accepted. */
const isEvent = (event: Readonly<Record<string, unknown>> = {}): boolean =>
  ["id", "source", "type", "subject"].every((name) => typeof event[name] === "string");

/** An event that fetches the record of a job. */
function eventOf(pointer: ThinPointer): string {
  const { crm, deletion, subject } = pointer;
  const type = deletion === true ? "crm.record.deleted" : "crm.record.updated";
  const id = digestOf(fieldOf(pointer));
  const data = { fetch: crm };
  return JSON.stringify({ specversion: "1.0", id, source: `/${crm}`, type, subject, data });
}

const fieldOf = ({ crm, subject, deletion, role }: ThinPointer): string =>
  `${crm}${deletion === true ? " deletion" : role === undefined ? "" : ` ${role}`}|${subject}`;
