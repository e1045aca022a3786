/** The ledger as a whole: its warm-up from the list endpoint, its size. */
import type { Redis, Result } from "ioredis";
import type { Keys } from "./keys.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import { readRow, storeRow } from "./ledger-row.ts";

/**
 * How far the warm-up got. `new` also after Redis has lost everything. `cold`: listing kept
 * failing, and sync goes on without until it succeeds.
 */
export interface WarmUp {
  readonly state: "new" | "running" | "done" | "cold";
  /** Where to go on listing; undefined: from the start. */
  readonly cursor: string | undefined;
  readonly relations: number;
  /** When sync began to go on without it, ms. */
  readonly coldSince: number | undefined;
  /** Why the last try to list failed, in the client's own word; undefined when it did not. */
  readonly failure: string | undefined;
}

/** For how long a process that warms may be silent before another one takes over, ms. */
const LEASE_MS = 60_000;

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncForget(keys: number, ...args: string[]): Result<number, Context>;
  }
}

/** KEYS ledger; ARGV crmCode, row, … Deletes each row that still is what it was. */
const FORGET = `
local forgotten = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    forgotten = forgotten + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return forgotten
`;

export class Ledger {
  readonly #redis: Redis;
  readonly #keys: Keys;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
    redis.defineCommand("crmsyncForget", { lua: FORGET });
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

  /** Whether this process may warm the ledger now; at most one at a time may. */
  async claimWarmUp(owner: string): Promise<boolean> {
    const key = this.#keys.warmUpOwner;
    if ((await this.#redis.set(key, owner, "PX", LEASE_MS, "NX")) === "OK") return true;
    return (await this.#redis.get(key)) === owner;
  }

  async releaseWarmUp(): Promise<void> {
    await this.#redis.del(this.#keys.warmUpOwner);
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

  /** Listing from the start again, for a cursor that the service does not take any more. */
  async restartWarmUp(): Promise<void> {
    await this.#redis.hdel(this.#keys.warmUp, "cursor", "relations");
  }

  async listingFailed(reason: string): Promise<void> {
    await this.#redis.hset(this.#keys.warmUp, "failure", reason);
  }

  async goOnCold(now: number): Promise<void> {
    await this.#redis.hset(this.#keys.warmUp, "state", "cold", "cold", now);
  }

  /**
   * Forgets rows that only say "not there" and are older than `before` (ms). Rows of what the
   * service has stay: without one, a deletion would find nothing to terminate.
   * @returns how many were forgotten.
   */
  async forget(before: number): Promise<number> {
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
      if (old.length > 0) {
        forgotten += await this.#redis.crmsyncForget(1, this.#keys.ledger, ...old);
      }
    } while (cursor !== "0");
    return forgotten;
  }
}
