/**
 * The doors that the service has closed: its answer 401 (token) or 403 (address). Shared, so that
 * one refused request stops every process; kept, so that a restart does not knock again.
 */
import type { Redis, Result } from "ioredis";
import type { DenialCause } from "../sync/outcomes.ts";
import type { Keys } from "./keys.ts";
import { NOW } from "./lua.ts";

export interface Denial {
  readonly cause: DenialCause;
  /** When it was first found closed, ms. */
  readonly since: number;
  /** The blocked address, as the service named it. */
  readonly address: string;
  readonly nextProbeAt: number;
  readonly probes: number;
}

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncCloseDoor(keys: number, ...args: (string | number)[]): Result<number, Context>;
    crmsyncClaimProbe(keys: number, ...args: (string | number)[]): Result<number, Context>;
  }
}

/**
 * KEYS doors; ARGV door detail pauseMs.
 * Returns 1 when this door was open until now. One is known at a time: what the newest answer
 * said. A probe that is refused again only waits on.
 */
const CLOSE = `
${NOW}
local flat = redis.call('HGETALL', KEYS[1])
local known = flat[1] == ARGV[1]
local closed = flat[2] and cjson.decode(flat[2]) or { probes = 0, next = now + ARGV[3] }
if not known then closed.since = now end
closed.address = ARGV[2]
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(closed))
return known and 0 or 1
`;

/**
 * KEYS doors; ARGV pauseMs maxPauseMs force.
 * Returns 1 for the one process that may knock now; the next may only after a longer pause.
 */
const CLAIM = `
${NOW}
local flat = redis.call('HGETALL', KEYS[1])
if not flat[1] then return 0 end
local closed = cjson.decode(flat[2])
if closed.next > now and ARGV[3] ~= '1' then return 0 end
closed.probes = closed.probes + 1
closed.next = now + math.min(ARGV[1] * 2 ^ math.min(closed.probes, 10), tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], flat[1], cjson.encode(closed))
return 1
`;

export class ServiceDenial {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #pauseMs: number;

  /** @param pauseMs least time between two probes, ms. */
  constructor(redis: Redis, keys: Keys, pauseMs: number) {
    this.#redis = redis;
    this.#keys = keys;
    this.#pauseMs = pauseMs;
    redis.defineCommand("crmsyncCloseDoor", { lua: CLOSE });
    redis.defineCommand("crmsyncClaimProbe", { lua: CLAIM });
  }

  async current(): Promise<Denial | undefined> {
    const [entry] = Object.entries(await this.#redis.hgetall(this.#keys.denial));
    if (entry === undefined) return undefined;
    const [door, text] = entry;
    const stored = JSON.parse(text) as {
      since: number;
      address: string;
      next: number;
      probes: number;
    };
    const { since, address, probes } = stored;
    return { cause: door as DenialCause, since, address, probes, nextProbeAt: stored.next };
  }

  /** @returns whether it was open until now. */
  async begin(door: DenialCause, detail: string): Promise<boolean> {
    return (
      (await this.#redis.crmsyncCloseDoor(1, this.#keys.denial, door, detail, this.#pauseMs)) === 1
    );
  }

  /** @param force knock although the pause is not over, since the token has changed. */
  async claimProbe(force: boolean): Promise<boolean> {
    const longest = this.#pauseMs * 6;
    const claimed = await this.#redis.crmsyncClaimProbe(
      1,
      this.#keys.denial,
      this.#pauseMs,
      longest,
      force ? "1" : "",
    );
    return claimed === 1;
  }

  /** @returns whether one was closed until now. */
  async end(): Promise<boolean> {
    return (await this.#redis.del(this.#keys.denial)) === 1;
  }
}
