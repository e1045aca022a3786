/**
 * Whether the service denies us access: its reply was 401 (token) or 403 (address). Shared, so that
 * one denied request stops every process; kept, so that a restart does not probe at once.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { DenialCause } from "../sync/outcomes.ts";
import type { Keys } from "./keys.ts";

export interface Denial {
  readonly cause: DenialCause;
  /** When the first request was denied, ms. */
  readonly since: number;
  /** The blocked address, as the service named it. */
  readonly address: string;
  readonly nextProbeAt: number;
  readonly probes: number;
}

/** Value of the hash, as begin-denial.lua writes it. */
interface StoredDenial {
  readonly since: number;
  readonly address: string;
  readonly next: number;
  readonly probes: number;
}

/** The longest pause between two probes, in pauses. */
const LONGEST_PAUSE = 6;

export class ServiceDenial {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #pauseMs: number;
  readonly #begin: RedisScript<number>;
  readonly #claimProbe: RedisScript<number>;

  /** @param pauseMs least time between two probes, ms. */
  constructor(redis: Redis, keys: Keys, pauseMs: number) {
    this.#redis = redis;
    this.#key = keys.denial;
    this.#pauseMs = pauseMs;
    this.#begin = redisScript(redis, new URL("./lua/begin-denial.lua", import.meta.url));
    this.#claimProbe = redisScript(redis, new URL("./lua/claim-probe.lua", import.meta.url));
  }

  async current(): Promise<Denial | undefined> {
    const [entry] = Object.entries(await this.#redis.hgetall(this.#key));
    if (entry === undefined) return undefined;
    const [cause, text] = entry;
    const { next, ...stored } = JSON.parse(text) as StoredDenial;
    return { cause: cause as DenialCause, ...stored, nextProbeAt: next };
  }

  /** @returns whether a denial of this cause begins with this reply. */
  async begin(cause: DenialCause, address: string): Promise<boolean> {
    return (await this.#begin([this.#key], [cause, address, this.#pauseMs])) === 1;
  }

  /** @param force probe although the pause is not over, because the token has changed. */
  async claimProbe(force: boolean): Promise<boolean> {
    const args = [this.#pauseMs, this.#pauseMs * LONGEST_PAUSE, force ? "1" : ""];
    return (await this.#claimProbe([this.#key], args)) === 1;
  }

  /** @returns whether there was a denial. */
  async end(): Promise<boolean> {
    return (await this.#redis.del(this.#key)) === 1;
  }
}
