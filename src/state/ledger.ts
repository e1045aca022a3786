/** The ledger as a whole: its warm-up from the list endpoint, its size. */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import type { Keys } from "./keys.ts";
import { readRow, storeRow } from "./ledger-row.ts";

/**
 * How far the warm-up got. `new`: not begun, also after Redis has lost everything. `cold`: listing
 * keeps failing, and sync goes on without it until it succeeds.
 */
export interface WarmUp {
  readonly state: "new" | "running" | "done" | "cold";
  /** Where listing continues; undefined: at the start. */
  readonly cursor: string | undefined;
  readonly relations: number;
  /** When sync began to go on without it, ms. */
  readonly coldSince: number | undefined;
  /** Why the last listing failed, as the client names it; undefined when it did not fail. */
  readonly failure: string | undefined;
}

/** After this long without a page, another process may take the warm-up over, ms. */
const LEASE_MS = 60_000;

export class Ledger {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #forget: RedisScript<number>;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#forget = redisScript(redis, new URL("./lua/forget-rows.lua", import.meta.url));
  }

  /** Undefined when the ledger has no row of this crmCode. */
  async row(crmCode: string): Promise<LedgerRow | undefined> {
    const text = await this.#redis.hget(this.#keys.ledger, crmCode);
    return text === null ? undefined : readRow(text);
  }

  async warmUp(): Promise<WarmUp> {
    const field = await this.#redis.hgetall(this.#keys.warmUp);
    return {
      state: (field["state"] as WarmUp["state"] | undefined) ?? "new",
      cursor: field["cursor"],
      relations: Number(field["relations"] ?? 0),
      coldSince: field["cold"] === undefined ? undefined : Number(field["cold"]),
      failure: field["failure"],
    };
  }

  /** Whether this process may warm the ledger now; one process may at a time. */
  async claimWarmUp(owner: string): Promise<boolean> {
    const key = this.#keys.warmUpOwner;
    if ((await this.#redis.set(key, owner, "PX", LEASE_MS, "NX")) === "OK") return true;
    return (await this.#redis.get(key)) === owner;
  }

  async releaseWarmUp(): Promise<void> {
    await this.#redis.del(this.#keys.warmUpOwner);
  }

  /**
   * Writes one listed page. Rows that exist are newer than the listing and stay as they are.
   * @param cursor of the next page; undefined when this was the last one.
   */
  async writePage(
    rows: readonly (readonly [string, LedgerRow])[],
    cursor: string | undefined,
  ): Promise<void> {
    const work = this.#redis.multi();
    for (const [crmCode, row] of rows) work.hsetnx(this.#keys.ledger, crmCode, storeRow(row));
    work.hincrby(this.#keys.warmUp, "relations", rows.length);
    work.hdel(this.#keys.warmUp, "failure");
    if (cursor === undefined) {
      work.hset(this.#keys.warmUp, "state", "done");
      work.hdel(this.#keys.warmUp, "cursor", "cold");
    } else {
      work.hset(this.#keys.warmUp, "cursor", cursor);
      work.hsetnx(this.#keys.warmUp, "state", "running");
    }
    work.pexpire(this.#keys.warmUpOwner, LEASE_MS);
    await work.exec();
  }

  /** Starts the listing again, because the service no longer accepts the cursor. */
  async restartWarmUp(): Promise<void> {
    await this.#redis.hdel(this.#keys.warmUp, "cursor", "relations");
  }

  async listingFailed(reason: string): Promise<void> {
    await this.#redis.hset(this.#keys.warmUp, "failure", reason);
  }

  async continueCold(now: number): Promise<void> {
    await this.#redis.hset(this.#keys.warmUp, "state", "cold", "cold", now);
  }

  /**
   * Forgets rows of relations that the service does not have, proven before this time (ms). Rows of
   * relations that it has stay: without one, a deletion would find nothing to terminate.
   * @returns how many rows were forgotten.
   */
  async forgetAbsent(before: number): Promise<number> {
    let forgotten = 0;
    let cursor = "0";
    do {
      const [next, flat] = await this.#redis.hscan(this.#keys.ledger, cursor, "COUNT", 500);
      cursor = next;
      const old: string[] = [];
      for (let i = 0; i + 1 < flat.length; i += 2) {
        const text = flat[i + 1] ?? "";
        const { exists, uncertain, provedAt } = readRow(text);
        if (exists === false && !uncertain && provedAt < before) old.push(flat[i] ?? "", text);
      }
      if (old.length > 0) forgotten += await this.#forget([this.#keys.ledger], old);
    } while (cursor !== "0");
    return forgotten;
  }
}
