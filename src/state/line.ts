/** The line: which records are to be sent, each lane in its order. `StagedStates.next` takes the first that is due. */
import type { Meaning } from "../ops/redis-reading.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { luaReading, readAll, Store } from "./store.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";
import { hashOf } from "../ops/log-names.ts";
import { triesIn, type Staged } from "../sync/record.ts";

export class Line extends Store {
  /** How many records may be sent now; none of the lane bulk while it is paused. @param now Redis' time, ms */
  async due(now: number): Promise<Record<Lane, number>> {
    const { bulkPause, line } = this.keys;
    const [live, bulk, isPaused] = (await readAll(this.redis, [
      ["ZCOUNT", line("live"), "-inf", now],
      ["ZCOUNT", line("bulk"), "-inf", now],
      ["EXISTS", bulkPause],
    ])) as [number, number, number];
    return { live, bulk: isPaused === 1 ? 0 : bulk };
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

  /** From when on a record may be sent, ms; undefined when it is in no line. */
  async dueAt(crmCode: string): Promise<number | undefined> {
    const scores = await Promise.all(
      LANES.map((lane) => this.redis.zscore(this.keys.line(lane), crmCode)),
    );
    const due = scores.find((score) => score !== null);
    return due === undefined ? undefined : Number(due);
  }

  /** How many records of each kind stand in the lines. */
  counts() {
    const { inFlight, line } = this.keys;
    const keys = [...LANES.map(line), inFlight];
    return luaReading(
      "count-line",
      keys,
      [],
      ([live, bulk, taken, later, lastLive, lastBulk]: string[]) => ({
        /** They may be sent now. */
        due: { live: Number(live), bulk: Number(bulk) },
        /** A worker has taken them. */
        inFlight: Number(taken),
        /** They wait for a retry, or until a late request can have arrived. */
        later: Number(later),
        /** When the last of them are due, ms; 0: none waits. */
        lastDueAt: { live: Number(lastLive), bulk: Number(lastBulk) },
      }),
    );
  }
}

export type LineCounts = Meaning<ReturnType<Line["counts"]>>;

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

/** Records fail "again and again" once they have failed for this long, ms. */
const MIN_AGE_MS = 20_000;

/** How the reason begins of a try that sent nothing, because the process could not open the change. */
export const NOT_OPENED = "its change cannot be opened";

/** The record that has failed for longest, of all that fail again and again; undefined when none does. */
export const mostRetried = (keys: Keys) =>
  luaReading(
    "most-retried",
    [keys.retried, keys.staged("")],
    [MIN_AGE_MS],
    ([records, crmCode = "", state]: string[]) => {
      const { counts, failure } = JSON.parse(state ?? "{}") as Partial<Staged>;
      if (failure === undefined) return undefined;
      return {
        records: Number(records),
        tries: triesIn(counts) || 1,
        /** The hash of its crmCode, even if the log names records by crmCodes: everybody may see the status. */
        record: hashOf(crmCode),
        /** When its first try failed, ms. */
        since: failure.since,
        /** As the client names it, behind the status if there was one: `500 (server_error)`; or begins with NOT_OPENED. */
        reason: failure.reason,
      };
    },
  );

export type MostRetried = NonNullable<Meaning<ReturnType<typeof mostRetried>>>;
