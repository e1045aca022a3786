/**
 * A service that is unavailable for every record. All processes share what they know of it in Redis, and
 * together try the service once per pause, instead of spending the quota on it.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, redisWrites, type RedisScript } from "../ops/redis-script.ts";
import { NO_CONNECTION, type UnavailableReason } from "../sync/service-reply.ts";
import type { Keys } from "./keys.ts";

/** These say nothing about the service: this process was too slow, or one record has a problem. */
const NO_FAILURE: ReadonlySet<string> = new Set<UnavailableReason>([
  "stale_permit",
  "slept",
  "closed",
  "forbidden",
  "unconfirmed",
]);

/** Failures on the way from this process to the service: another process may have another way. */
const FAILURES_HERE: ReadonlySet<string> = new Set<UnavailableReason>(["dns", "proxy"]);

/** For how long such a failure of one process counts, ms. */
const HERE_MS = 120_000;

/**
 * Failures in a row, over all records and processes, that make an outage. One record counts twice at
 * most: the service may have a fault with that record alone.
 */
const FAILURES = 5;
const FAILURES_OF_RECORD = 2;

/**
 * A record that failed in an outage which has ended is a suspect until its change has ended (retried-records.ts), or
 * until it has not failed for this long, ms.
 */
const SUSPECT_MS = 3_600_000;

const NO_RECORDS: ReadonlySet<string> = new Set();

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** Times in ms. */
export interface OutageView {
  readonly since: number;
  /** Of the newest failure, as the client names it. */
  readonly reason: string;
  readonly nextTryAt: number;
}

export interface OutageOptions {
  /** How many processes send requests at present. */
  readonly runningProcesses?: () => Promise<number>;
  /** The longest that a request may take, ms. */
  readonly tryMs?: number;
  /** A clock that never steps, ms. */
  readonly now?: () => number;
}

export class Outage {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #keys: readonly string[];
  readonly #process: string = randomUUID();
  readonly #failed: RedisScript<number>;
  readonly #try: RedisScript<number>;
  readonly #notTried: RedisScript<number>;
  readonly #ended: RedisScript<string[] | null>;
  readonly #hereKey: string;
  readonly #writes: ReturnType<typeof redisWrites>;
  readonly #runningProcesses: () => Promise<number>;
  readonly #now: () => number;
  /** Failures of this process alone, in a row, and until when it makes no request for them, ms. */
  #failuresHere = 0;
  #pausedUntil = 0;
  /** Whether this process knows of a failure (its own or another's) since the last usable reply. */
  #failing = true;
  /** Whether this process makes the one try. */
  #isTrying = false;
  readonly #tryMs: number;

  constructor(redis: Redis, keys: Keys, options: OutageOptions = {}) {
    const { runningProcesses = async () => 1, tryMs = 0, now = () => performance.now() } = options;
    this.#tryMs = tryMs;
    this.#redis = redis;
    this.#hereKey = keys.outageHere;
    this.#writes = redisWrites(redis);
    this.#runningProcesses = runningProcesses;
    this.#now = now;
    this.#key = keys.outage;
    this.#keys = [keys.outage, keys.outageRecords, keys.outageSuspects];
    this.#failed = redisScript(redis, new URL("./lua/outage-failed.lua", import.meta.url));
    this.#try = redisScript(redis, new URL("./lua/outage-try.lua", import.meta.url));
    this.#notTried = redisScript(redis, new URL("./lua/outage-not-tried.lua", import.meta.url));
    this.#ended = redisScript(redis, new URL("./lua/outage-ended.lua", import.meta.url));
  }

  /**
   * Counts an unavailable reply. A failure on the way from this process pauses this process alone; it counts
   * for all processes only when each of them has such failures.
   * @param reason as the client names it.
   * @param crmCode of the record whose request it was.
   * @returns whether an outage begins with this failure.
   */
  async failed(reason: string, crmCode: string): Promise<boolean> {
    if (NO_FAILURE.has(reason)) return this.notTried();
    this.#failing = true;
    if (FAILURES_HERE.has(reason) && !(await this.#failsEverywhere())) return this.notTried();
    this.#isTrying = false;
    const ofRecord = NO_CONNECTION.has(reason) ? 0 : 1;
    const limits = [FAILURES, FAILURES_OF_RECORD, FIRST_PAUSE_MS, LONGEST_PAUSE_MS];
    const args = [...limits, reason, crmCode, ofRecord, SUSPECT_MS];
    return (await this.#failed(this.#keys, args)) === 1;
  }

  /** If this process has an outage's one try: no request was made, or it says nothing about the service. */
  async notTried(): Promise<false> {
    if (this.#isTrying) await this.#notTried([this.#key]);
    this.#isTrying = false;
    return false;
  }

  /**
   * The service has given a usable reply.
   * @returns the records to be tried again now, when an outage ends with it; undefined when none does.
   */
  async succeeded(): Promise<readonly string[] | undefined> {
    // Redis is written once per recovery of this process, not at each reply.
    if (!this.#failing) return undefined;
    this.#isTrying = false;
    const again = await this.#ended(this.#keys, [SUSPECT_MS]);
    await this.#redis.hdel(this.#hereKey, this.#process);
    this.#failuresHere = 0;
    this.#pausedUntil = 0;
    this.#failing = false;
    return again ?? undefined;
  }

  /** The records that should not be an outage's try: they have failed in it, or are suspects. */
  async unfitForTry(): Promise<ReadonlySet<string>> {
    if (!this.#failing) return NO_RECORDS;
    const [outage, records, suspects] = this.#keys as [string, string, string];
    const [has, failed, old] = await Promise.all([
      this.#redis.hexists(outage, "until"),
      this.#redis.hkeys(records),
      this.#redis.zrange(suspects, "0", "-1"),
    ]);
    return has === 0 ? NO_RECORDS : new Set([...failed, ...old]);
  }

  /** Whether an outage's pause is over: the next retry need not wait until it is due then. Claims no try. */
  async isTryDue(now: number): Promise<boolean> {
    if (!this.#failing) return false;
    const outage = await this.current();
    return outage !== undefined && outage.nextTryAt <= now;
  }

  /** How long to wait before a request may be tried, ms; 0: this process may make the try now. */
  async waitMs(): Promise<number> {
    const here = this.#pausedUntil - this.#now();
    if (here > 0) return Math.ceil(here);
    const wait = await this.#try([this.#key], [this.#tryMs]);
    if (wait >= 0) return wait;
    this.#isTrying = true;
    // All failures may be those of other processes that have ended since: the reply to
    // this try must end the outage.
    this.#failing = true;
    return 0;
  }

  /** Pauses this process, and tells whether all processes have such failures. */
  async #failsEverywhere(): Promise<boolean> {
    // A request that fails during a pause was in flight when the pause began: it makes
    // the next pause no longer.
    if (this.#pausedUntil <= this.#now()) {
      this.#failuresHere += 1;
      const tooMany = this.#failuresHere - FAILURES;
      if (tooMany >= 0) {
        const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tooMany, 20));
        this.#pausedUntil = this.#now() + pause;
      }
    }
    await this.#writes([
      ["HSET", this.#hereKey, this.#process, Date.now()],
      ["PEXPIRE", this.#hereKey, HERE_MS],
    ]);
    const times = Object.values(await this.#redis.hgetall(this.#hereKey));
    const failing = times.filter((at) => Date.now() - Number(at) < HERE_MS).length;
    return failing >= (await this.#runningProcesses());
  }

  /** Whether no failure is counted: a request may be tried without a claim. */
  async isFree(): Promise<boolean> {
    return this.#pausedUntil <= this.#now() && (await this.#redis.exists(this.#key)) === 0;
  }

  /** Reads the outage without claiming a try; undefined when there is none. */
  current(): Promise<OutageView | undefined> {
    return readOne(this.#redis, this.reading());
  }

  reading(): Reading<OutageView | undefined> {
    return reading(["hgetall", this.#key], (field: Record<string, string>) => {
      if (field["until"] === undefined) return undefined;
      const nextTryAt = Number(field["until"]);
      return {
        since: Number(field["since"] ?? nextTryAt),
        reason: field["reason"] ?? "unknown",
        nextTryAt,
      };
    });
  }
}
