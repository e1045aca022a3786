/** The ledger as a whole: its warm-up from the list endpoint, its size. */
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";
import { storeRow, type LedgerRow } from "./ledger-row.ts";

/** How far the warm-up got. `cold`: listing kept failing, and sync goes on without. */
export interface WarmUp {
  readonly state: "new" | "running" | "done" | "cold";
  /** Where to go on listing; undefined: from the start. */
  readonly cursor: string | undefined;
  readonly relations: number;
}

/** For how long a process that warms may be silent before another one takes over, ms. */
const LEASE_MS = 60_000;

export class Ledger {
  readonly #redis: Redis;
  readonly #keys: Keys;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  async warmUp(): Promise<WarmUp> {
    const field = await this.#redis.hgetall(this.#keys.warmUp);
    return {
      state: (field["state"] as WarmUp["state"] | undefined) ?? "new",
      cursor: field["cursor"],
      relations: Number(field["relations"] ?? 0),
    };
  }

  /** Whether this process may warm the ledger now; at most one at a time may. */
  async claimWarmUp(owner: string): Promise<boolean> {
    const key = `${this.#keys.warmUp}:owner`;
    if ((await this.#redis.set(key, owner, "PX", LEASE_MS, "NX")) === "OK") return true;
    return (await this.#redis.get(key)) === owner;
  }

  async releaseWarmUp(): Promise<void> {
    await this.#redis.del(`${this.#keys.warmUp}:owner`);
  }

  /**
   * Writes one listed page. What a row says already is newer than a listing, and stays.
   * @param cursor of the next page; undefined when this was the last.
   */
  async writePage(
    rows: readonly (readonly [string, LedgerRow])[],
    cursor: string | undefined,
  ): Promise<void> {
    const work = this.#redis.multi();
    for (const [crmCode, row] of rows) work.hsetnx(this.#keys.ledger, crmCode, storeRow(row));
    work.hincrby(this.#keys.warmUp, "relations", rows.length);
    if (cursor === undefined) {
      work.hset(this.#keys.warmUp, "state", "done");
      work.hdel(this.#keys.warmUp, "cursor");
    } else {
      work.hset(this.#keys.warmUp, "state", "running", "cursor", cursor);
    }
    work.pexpire(`${this.#keys.warmUp}:owner`, LEASE_MS);
    await work.exec();
  }

  /** Listing from the start again, for a cursor that the service does not take any more. */
  async restartWarmUp(): Promise<void> {
    await this.#redis.del(this.#keys.warmUp);
  }

  async goOnCold(): Promise<void> {
    await this.#redis.hset(this.#keys.warmUp, "state", "cold");
  }

  async size(): Promise<number> {
    return this.#redis.hlen(this.#keys.ledger);
  }
}
