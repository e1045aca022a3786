/**
 * Whether the service denies us access: its reply was 401 (token) or 403 (address). Shared, so that
 * one denied request stops every process; kept, so that a restart does not probe at once.
 */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { DenialCause } from "../sync/outcomes.ts";
import type { Keys } from "./keys.ts";
import { Store } from "./store.ts";

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

/** How soon a probe without a usable reply is repeated, in pauses. */
const REPEAT_AFTER = 1 / 5;

/** A denial that begins within this time after the last one counts as that one, in pauses. */
const ENDED_FOR = 2 * LONGEST_PAUSE;

export class ServiceDenial extends Store {
  readonly #pauseMs: number;
  readonly #begin: RedisScript<number>;
  readonly #claimProbe: RedisScript<number>;
  readonly #repeatProbe: RedisScript<number>;
  readonly #end: RedisScript<number>;

  /** @param pauseMs least time between two probes, ms. */
  constructor(redis: Redis, keys: Keys, pauseMs: number) {
    super(redis, keys);
    this.#pauseMs = pauseMs;
    this.#begin = redisScript(redis, new URL("./lua/begin-denial.lua", import.meta.url));
    this.#claimProbe = redisScript(redis, new URL("./lua/claim-probe.lua", import.meta.url));
    this.#repeatProbe = redisScript(redis, new URL("./lua/repeat-probe.lua", import.meta.url));
    this.#end = redisScript(redis, new URL("./lua/end-denial.lua", import.meta.url));
  }

  current(): Promise<Denial | undefined> {
    return readOne(this.redis, this.reading());
  }

  reading(): Reading<Denial | undefined> {
    return reading(["hgetall", this.keys.denial], (fields: Record<string, string>) => {
      const [entry] = Object.entries(fields);
      if (entry === undefined) return undefined;
      const [cause, text] = entry;
      const { next, ...stored } = JSON.parse(text) as StoredDenial;
      return { cause: cause as DenialCause, ...stored, nextProbeAt: next };
    });
  }

  /** @returns whether a denial of this cause begins with this reply. */
  async begin(cause: DenialCause, address: string): Promise<boolean> {
    const args = [cause, address, this.#pauseMs, this.#pauseMs * LONGEST_PAUSE];
    return (await this.#begin([this.keys.denial, this.keys.denialEnded], args)) === 1;
  }

  /**
   * One record was answered 403, and perhaps all would be: asks for a probe, at most one per pause.
   * It is no denial yet.
   */
  async askForProbe(): Promise<void> {
    await this.write("SET", this.keys.probeAsked, "due", "PX", Math.ceil(this.#pauseMs), "NX");
  }

  /** Whether a probe was asked for, and this process is the one that makes it. */
  async claimAskedProbe(): Promise<boolean> {
    if ((await this.redis.get(this.keys.probeAsked)) !== "due") return false;
    // Another process may have come first, or the time be over.
    return (
      (await this.write("SET", this.keys.probeAsked, "made", "KEEPTTL", "XX", "GET")) === "due"
    );
  }

  /** @param force probe although the pause is not over, because the token has changed. */
  async claimProbe(force: boolean): Promise<boolean> {
    const args = [this.#pauseMs, this.#pauseMs * LONGEST_PAUSE, force ? "1" : ""];
    return (await this.#claimProbe([this.keys.denial], args)) === 1;
  }

  /** The reply to a probe says nothing about the denial: another one is made soon. */
  async repeatProbe(): Promise<void> {
    await this.#repeatProbe([this.keys.denial], [Math.ceil(this.#pauseMs * REPEAT_AFTER)]);
  }

  /** @returns whether there was a denial. */
  async end(): Promise<boolean> {
    const keptMs = Math.ceil(this.#pauseMs * ENDED_FOR);
    return (await this.#end([this.keys.denial, this.keys.denialEnded], [keptMs])) === 1;
  }
}
