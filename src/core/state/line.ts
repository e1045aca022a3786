/** The line: which records are to be sent, each lane in its order, and those that wait for a later time. */
import { reading, type Meaning, type Reading } from "../../base/redis-reading.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { luaReading, readAll, Store } from "./store.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";
import { hashOf } from "../../base/log-names.ts";
import { changeIn, type Place } from "./record-store.ts";
import { scanSorted } from "./scan.ts";
import { triesIn } from "../sync/run.ts";

type ByLane = Readonly<Record<Lane, number>>;

/** What lua/waiting.lua finds. Times in ms. */
interface Waiting {
  /** They may be sent now. */
  readonly due: ByLane;
  /** They have a change that is not on the service, and waits for no person. */
  readonly unsynced: ByLane;
  /** Since when the oldest of them wait. */
  readonly since: Readonly<Partial<Record<Lane, number>>>;
  /** A worker has taken them. */
  readonly inFlight: number;
  /** They wait for a retry, or until a late request can have arrived. */
  readonly later: number;
  /** They are on the service, and are read once more. */
  readonly sent: number;
  /** When the last of those that wait for later are due; 0: none does. */
  readonly lastDueAt: ByLane;
  /** When the first of all that wait for later are due, or were. */
  readonly firstDueAt: Readonly<Partial<Record<Lane, number>>>;
  /** How many fail again and again, and the one that has for longest, with its change. */
  readonly retried: number;
  readonly mostRetried?: string;
  readonly state?: string;
  /** A record whose change is gone from Redis. */
  readonly missing?: string;
}

/** So many of a line are looked at for the oldest. */
const LOOKED_AT = 50;

/** Records fail "again and again" once they have failed for this long, ms. */
const MIN_AGE_MS = 20_000;

/** How the reason begins of a try that sent nothing, because the process could not open the change. */
export const NOT_OPENED = "its change cannot be opened";

const PAGE = 500;

export class Line extends Store {
  readonly #due = this.script<[live: number, bulk: number]>("due");
  readonly #next = this.script<string | null>("next");

  /** How many records may be sent now; none of the lane bulk while it is paused. */
  async due(): Promise<Record<Lane, number>> {
    const [live, bulk] = await this.#due(this.#sets(), [this.keys.staged("")]);
    return { live, bulk };
  }

  /**
   * The first record that is due, which no other worker gets meanwhile.
   * @param which `live`: only a live one; `any`: one that is due, by chance. @param holdMs after this it is due again,
   * if this process dies
   */
  async next(which: Lane | "any", holdMs: number): Promise<string | undefined> {
    const args = [this.keys.staged(""), holdMs, which, Math.random()];
    return (await this.#next(this.#sets(), args)) ?? undefined;
  }

  #sets(): string[] {
    const { bulkPause, later, line } = this.keys;
    return [line("live"), line("bulk"), later, bulkPause];
  }

  /** How many records are sent before this one. */
  async aheadOf(crmCode: string, lane: Lane): Promise<Record<Lane, number>> {
    const { line } = this.keys;
    const [rank, live] = (await readAll(this.redis, [
      ["ZRANK", line(lane), crmCode],
      ["ZCARD", line("live")],
    ])) as [number | null, number];
    return lane === "live" ? { live: rank ?? 0, bulk: 0 } : { live, bulk: rank ?? 0 };
  }

  /** What stands in the lines, and what waits for later. */
  counts() {
    const { later, line } = this.keys;
    return luaReading(
      "waiting",
      [...LANES.map(line), later],
      [this.keys.staged(""), LOOKED_AT, MIN_AGE_MS],
      (text: string) => {
        const { missing, mostRetried, retried, state, ...counts } = JSON.parse(text) as Waiting;
        return {
          ...counts,
          /** When the first of all is due, or was, ms; Infinity: there is none. */
          firstDueAt: {
            live: counts.due.live > 0 ? 0 : (counts.firstDueAt.live ?? Infinity),
            bulk: counts.due.bulk > 0 ? 0 : (counts.firstDueAt.bulk ?? Infinity),
          },
          /** The record that has failed for longest, of all that fail again and again; undefined when none does. */
          retried: retriedIn(retried, mostRetried, state),
          /** The hash of a crmCode whose change is gone from Redis. */
          missing: missing === undefined ? undefined : hashOf(missing),
        };
      },
    );
  }

  /** How many wait for later. */
  laterCount(): Promise<number> {
    return this.redis.zcard(this.keys.later);
  }

  /** How many records may lack their newest change, and the hash of the crmCode of one of them. */
  lost(): Reading<number> {
    return reading(["hlen", this.keys.lost], Number);
  }

  someLost(): Reading<string | undefined> {
    const meaning = (crmCode: string | null) => (crmCode === null ? undefined : hashOf(crmCode));
    return reading(["hrandfield", this.keys.lost], meaning);
  }

  /** All records that stand in these lanes, a page at a time; of those that wait for later, of the other lane, too. */
  async *codes(lanes: readonly Lane[] = LANES): AsyncGenerator<string[]> {
    for (const key of [...lanes.map(this.keys.line), this.keys.later]) {
      for await (const page of scanSorted(this.redis, key, PAGE)) {
        yield page.map(([crmCode]) => crmCode);
      }
    }
  }

  /** Where these records stand, in the order given; undefined: nothing of them waits. */
  async places(crmCodes: readonly string[]): Promise<(Place | undefined)[]> {
    const reads = crmCodes.map((crmCode) => ["HGET", this.keys.staged(crmCode), "place"] as const);
    const texts =
      reads.length === 0 ? [] : ((await readAll(this.redis, reads)) as (string | null)[]);
    return texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Place)));
  }

  /** The records among these that have a change which is not on the service, and waits for no person. */
  async unsynced(crmCodes: readonly string[]): Promise<string[]> {
    const places = await this.places(crmCodes);
    return crmCodes.filter((_, index) => isUnsynced(places[index]));
  }

  /** The records of a lane that wait longest, with since when, ms. */
  async oldest(lane: Lane, most: number): Promise<{ crmCode: string; since: number }[]> {
    const { later, line } = this.keys;
    const [first, others] = (await readAll(this.redis, [
      ["ZRANGE", line(lane), 0, most - 1],
      ["ZRANGE", later, 0, PAGE - 1],
    ])) as [string[], string[]];
    const codes = [...new Set([...first, ...others])];
    const places = await this.places(codes);
    const found = codes.flatMap((crmCode, index) => {
      const place = places[index];
      return isUnsynced(place) && place.lane === lane ? [{ crmCode, since: place.since }] : [];
    });
    return found.toSorted((a, b) => a.since - b.since).slice(0, most);
  }

  /** How many records of both lanes wait, those that are only read once more included. */
  async size(): Promise<number> {
    const keys = [...LANES.map(this.keys.line), this.keys.later];
    const sizes = await Promise.all(keys.map((key) => this.redis.zcard(key)));
    return sizes.reduce((sum, size) => sum + size, 0);
  }
}

const isUnsynced = (place: Place | undefined): place is Place =>
  place !== undefined && place.sent !== true && place.held === undefined;

function retriedIn(records: number, crmCode: string | undefined, state: string | undefined) {
  const { tries } = changeIn(state) ?? {};
  if (crmCode === undefined || tries?.since === undefined) return undefined;
  return {
    records,
    tries: triesIn(tries) || 1,
    /** The hash of its crmCode, even if the log names records by crmCodes: everybody may see the status. */
    record: hashOf(crmCode),
    /** When its first try failed, ms. */
    since: tries.since,
    /** As the client names it, behind the status if there was one: `500 (server_error)`; or begins with NOT_OPENED. */
    reason: tries.why ?? "",
  };
}

export type LineCounts = Meaning<ReturnType<Line["counts"]>>;
export type MostRetried = NonNullable<LineCounts["retried"]>;

/** Tells the waiting loops of all processes that a lane has got work. */
export class JobNotifier {
  readonly #listeners = new Set<(heard: string) => void>();
  #heard = 0;

  /** @param subscriber a client for this only: a subscribed client can send no other commands. */
  constructor(subscriber: Redis, keys: Keys) {
    subscriber.on("message", (_channel: string, heard: string) => this.wake(heard));
    // The client subscribes again by itself after a reconnection.
    subscriber.subscribe(keys.jobsAdded).catch(() => {});
  }

  /** Notifications so far. Read it before you check for work and pass it to `wait`: none is missed. */
  get heard(): number {
    return this.#heard;
  }

  /** Ends the waits of this process, as a notification would. */
  wake(heard = ""): void {
    this.#heard += 1;
    for (const listener of this.#listeners) listener(heard);
  }

  /** Calls back with every notification (`jobsAdded` in keys.ts), until the returned function is called. */
  listen(listener: (heard: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves after `ms`, or when `signal` is aborted; notifications do not end it. */
  pause(ms: number, signal: AbortSignal): Promise<void> {
    return sleep(ms, undefined, { signal }).catch(() => {});
  }

  /** Resolves at the next notification after `heard`, after `timeoutMs`, or on abort of `signal`. */
  wait(timeoutMs: number, signal: AbortSignal, heard = this.#heard): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        unlisten();
        resolve();
      };
      const unlisten = this.listen(done);
      const timer = setTimeout(done, timeoutMs);
      signal.addEventListener("abort", done, { once: true });
      if (signal.aborted || this.#heard !== heard) done();
    });
  }
}
