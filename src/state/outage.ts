/**
 * A service that gives no usable answer, to any record: shared, so that all processes together
 * try it once per pause instead of spending the quota on it.
 */
import type { Redis, Result } from "ioredis";
import type { Keys } from "./keys.ts";
import { NOW } from "./lua.ts";

/** Failures in a row, over all records and processes, that make an outage. */
const FAILURES = 5;

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncOutageFailed(keys: number, ...args: (string | number)[]): Result<number, Context>;
    crmsyncOutageTry(keys: number, ...args: (string | number)[]): Result<number, Context>;
  }
}

/** KEYS outage; ARGV failures firstPauseMs longestPauseMs reason. Returns 1 when the outage begins. */
const FAILED = `
${NOW}
local row = redis.call('HINCRBY', KEYS[1], 'row', 1)
redis.call('HSET', KEYS[1], 'reason', ARGV[4])
if row < tonumber(ARGV[1]) then return 0 end
local pause = math.min(ARGV[2] * 2 ^ math.min(row - ARGV[1], 20), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'pause', pause, 'until', now + pause)
redis.call('HSETNX', KEYS[1], 'since', now)
return row == tonumber(ARGV[1]) and 1 or 0
`;

/**
 * KEYS outage. Returns 0 when there is none, -1 when this is its one try, else how long to wait,
 * ms. Who may try during an outage is alone with it for one pause.
 */
const TRY = `
local untilMs = tonumber(redis.call('HGET', KEYS[1], 'until') or '0')
if untilMs == 0 then return 0 end
${NOW}
if untilMs > now then return untilMs - now end
redis.call('HSET', KEYS[1], 'until', now + redis.call('HGET', KEYS[1], 'pause'))
return -1
`;

/** An outage as it stands. Times in ms. */
export interface OutageView {
  readonly since: number;
  /** The newest failure, in the client's own word for it. */
  readonly reason: string;
  readonly nextTryAt: number;
}

export class Outage {
  readonly #redis: Redis;
  readonly #key: string;
  /** Whether this process knows of a failure, its own or another's, since the last usable answer. */
  #failing = true;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#key = keys.outage;
    redis.defineCommand("crmsyncOutageFailed", { lua: FAILED });
    redis.defineCommand("crmsyncOutageTry", { lua: TRY });
  }

  /**
   * @param reason the client's own word for what went wrong.
   * @returns whether an outage begins with this failure.
   */
  async failed(reason: string): Promise<boolean> {
    this.#failing = true;
    const args = [this.#key, FAILURES, FIRST_PAUSE_MS, LONGEST_PAUSE_MS, reason] as const;
    return (await this.#redis.crmsyncOutageFailed(1, ...args)) === 1;
  }

  /** The service has given a usable answer. @returns whether an outage ends with it. */
  async answered(): Promise<boolean> {
    // One deletion per recovery of a process, not one per request.
    if (!this.#failing) return false;
    const [until] = await this.#redis.hmget(this.#key, "until");
    await this.#redis.del(this.#key);
    this.#failing = false;
    return until !== null && until !== undefined;
  }

  /** How long to wait before a request may be tried, ms; 0: now, and the try is this process's. */
  async waitMs(): Promise<number> {
    const wait = await this.#redis.crmsyncOutageTry(1, this.#key);
    if (wait >= 0) return wait;
    // The outage may be one that only others have met, and they may be gone.
    this.#failing = true;
    return 0;
  }

  /** The outage that holds up sending, if there is one; a look that claims nothing. */
  async current(): Promise<OutageView | undefined> {
    const field = await this.#redis.hgetall(this.#key);
    if (field["until"] === undefined) return undefined;
    const nextTryAt = Number(field["until"]);
    return {
      since: Number(field["since"] ?? nextTryAt),
      reason: field["reason"] ?? "unknown",
      nextTryAt,
    };
  }
}
