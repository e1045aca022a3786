/** The ledger as a whole: its warm-up from the list endpoint, its size. */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, redisWrite, type RedisScript } from "../ops/redis-script.ts";
import { crmCodeProblem } from "../service-spec/crm-code.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import type { Keys } from "./keys.ts";
import { Lease } from "./lease.ts";
import { readRow, storeRow } from "./ledger-row.ts";
import { scanHash } from "./scan.ts";

/**
 * How far the warm-up got. `new`: not begun, also after Redis has lost everything. `cold`: listing
 * keeps failing, and changes are sent without a warm ledger until listing succeeds.
 */
export interface WarmUp {
  readonly state: "new" | "running" | "done" | "cold";
  /** Where listing continues; undefined: at the start. */
  readonly cursor: string | undefined;
  readonly relations: number;
  /** When the service was listed, by Redis' clock, ms; undefined: not yet, or by an older release. */
  readonly listedAt: number | undefined;
  /** More than half of the rows were gone when a change was staged or taken: deleted by somebody, or evicted. */
  readonly lost: boolean;
  /** Since when changes are sent without a warm ledger, ms. */
  readonly coldSince: number | undefined;
  /** Why the last listing failed, as the client names it; undefined when it did not fail. */
  readonly failure: string | undefined;
}

/** After this long without a sign of its process, another one may take the warm-up over, ms. */
const LEASE_MS = 10_000;

/** How often the process that warms the ledger must call `claimWarmUp`, ms. */
export const RENEW_WARM_UP_MS = LEASE_MS / 4;

/** Rows in one script that heals or doubts: Redis does nothing else meanwhile. */
const HEAL_BATCH = 1000;

/** Rows that are read in one round trip, and how many such pages are searched for relations that exist. */
const PAGE = 500;
const PAGES_SEARCHED = 20;

export class Ledger {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #write: ReturnType<typeof redisWrite>;
  readonly #lease: Lease;
  readonly #writePage: RedisScript<number>;
  readonly #forget: RedisScript<number>;
  readonly #forgetAll: RedisScript<number>;
  readonly #forgetRow: RedisScript<number>;
  readonly #keepWatermarks: RedisScript<number>;
  readonly #heal: RedisScript<number>;
  readonly #doubtAssumed: RedisScript<string[]>;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#write = redisWrite(redis);
    this.#lease = new Lease(redis, keys.warmUpOwner, LEASE_MS);
    this.#writePage = redisScript(redis, new URL("./lua/write-page.lua", import.meta.url));
    this.#forget = redisScript(redis, new URL("./lua/forget-rows.lua", import.meta.url));
    this.#forgetAll = redisScript(redis, new URL("./lua/forget-ledger.lua", import.meta.url));
    this.#forgetRow = redisScript(redis, new URL("./lua/forget-row.lua", import.meta.url));
    this.#keepWatermarks = redisScript(
      redis,
      new URL("./lua/keep-watermarks.lua", import.meta.url),
    );
    this.#heal = redisScript(redis, new URL("./lua/heal-ledger.lua", import.meta.url));
    this.#doubtAssumed = redisScript(redis, new URL("./lua/doubt-assumed.lua", import.meta.url));
  }

  /** Undefined when the ledger has no row of this crmCode. */
  async row(crmCode: string): Promise<LedgerRow | undefined> {
    const text = await this.#redis.hget(this.#keys.ledger, crmCode);
    return text === null ? undefined : readRow(text);
  }

  /** The rows of these crmCodes, in their order; undefined where there is none. */
  async rowsOf(crmCodes: readonly string[]): Promise<(LedgerRow | undefined)[]> {
    if (crmCodes.length === 0) return [];
    const texts = await this.#redis.hmget(this.#keys.ledger, ...crmCodes);
    return texts.map((text) => (text === null ? undefined : readRow(text)));
  }

  /**
   * Corrects rows by what the service was seen to hold, except those that say something newer.
   * @param askedAt when the service was asked, ms.
   * @returns how many rows were wrong or not there
   */
  async heal(rows: readonly (readonly [string, LedgerRow])[], askedAt: number): Promise<number> {
    let healed = 0;
    for (let from = 0; from < rows.length; from += HEAL_BATCH) {
      const batch = rows.slice(from, from + HEAL_BATCH);
      const flat = batch.flatMap(([crmCode, row]) => [crmCode, storeRow(row)]);
      healed += await this.#heal([this.#keys.ledger, this.#keys.warmUp], [askedAt, ...flat]);
    }
    return healed;
  }

  /**
   * After an empty list, relations were assumed to be absent. The service has these ones: their rows say
   * "unknown" from here on.
   * @returns those whose deletion was left out because of the empty list
   */
  async doubtAssumed(crmCodes: readonly string[]): Promise<string[]> {
    const leftOut: string[] = [];
    for (let from = 0; from < crmCodes.length; from += HEAL_BATCH) {
      const batch = crmCodes.slice(from, from + HEAL_BATCH);
      leftOut.push(...(await this.#doubtAssumed([this.#keys.ledger], batch)));
    }
    return leftOut;
  }

  warmUp(): Promise<WarmUp> {
    return readOne(this.#redis, this.warmUpReading());
  }

  warmUpReading(): Reading<WarmUp> {
    return reading(["hgetall", this.#keys.warmUp], (field: Record<string, string>) => ({
      state: (field["state"] as WarmUp["state"] | undefined) ?? "new",
      cursor: field["cursor"],
      relations: Number(field["relations"] ?? 0),
      listedAt: field["at"] === undefined ? undefined : Number(field["at"]),
      lost: field["lost"] !== undefined,
      coldSince: field["cold"] === undefined ? undefined : Number(field["cold"]),
      failure: field["failure"],
    }));
  }

  /** How many rows the ledger has. */
  sizeReading(): Reading<number> {
    return reading(["hlen", this.#keys.ledger], Number);
  }

  /** Whether this process may begin or continue the warm-up: one process may at a time. */
  claimWarmUp(owner: string): Promise<boolean> {
    return this.#lease.claim(owner);
  }

  releaseWarmUp(owner: string): Promise<void> {
    return this.#lease.release(owner);
  }

  /**
   * Writes one listed page. Rows that exist are newer than the listing and stay as they are.
   * @param next cursor of the next page; undefined when this was the last one.
   * @param cursor of this page; undefined when it is the first one.
   * @param askedAt when it was requested, ms
   * @returns false when the page is not the one that is due, or the ledger was forgotten since it was requested: the
   *   listing must begin again.
   */
  async writePage(
    rows: readonly (readonly [string, LedgerRow])[],
    next: string | undefined,
    cursor?: string,
    askedAt = Date.now(),
  ): Promise<boolean> {
    const flat = rows.flatMap(([crmCode, row]) => [crmCode, storeRow(row)]);
    const keys = [this.#keys.ledger, this.#keys.warmUp, this.#keys.warmUpOwner];
    return (
      (await this.#writePage(keys, [cursor ?? "", next ?? "", LEASE_MS, askedAt, ...flat])) === 1
    );
  }

  /**
   * Lets no process believe what the ledger says until it is warmed again; changes wait for that.
   * Watermarks stay. @returns how many rows were forgotten
   */
  async forgetAll(): Promise<number> {
    await this.keepWatermarks();
    const { ledger, ledgerForgotten, warmUp } = this.#keys;
    const rows = await this.#forgetAll([ledger, warmUp, ledgerForgotten]);
    await this.keepWatermarks();
    return rows;
  }

  /**
   * Takes the watermarks of forgotten rows over, also those that a crash of `forgetAll` has left. Costs one
   * command when there are none.
   */
  async keepWatermarks(): Promise<void> {
    const { ledger, ledgerForgotten } = this.#keys;
    if ((await this.#redis.exists(ledgerForgotten)) === 0) return;
    for await (const page of scanHash(this.#redis, ledgerForgotten, PAGE)) {
      await this.#keepWatermarks([ledger, ledgerForgotten], page.flat());
    }
  }

  /**
   * Forgets one row, except its watermark; the next change of the record costs a request.
   * @returns false when there is no row, or a request is under way
   */
  async forgetRow(crmCode: string): Promise<boolean> {
    return (await this.#forgetRow([this.#keys.ledger], [crmCode])) === 1;
  }

  /** All rows, a page at a time. */
  async *rows(): AsyncGenerator<LedgerRow> {
    for await (const page of this.#pages()) {
      for (const [, text] of page) yield readRow(text);
    }
  }

  /** Some relations that the service was last proven to have, among the first rows. */
  async someExisting(most: number): Promise<string[]> {
    const found: string[] = [];
    let pages = 0;
    for await (const page of this.#pages()) {
      for (const [crmCode, text] of page) {
        const { exists, uncertain } = readRow(text);
        const canBeAskedFor = crmCodeProblem(crmCode) === undefined;
        if (exists === true && !uncertain && canBeAskedFor) found.push(crmCode);
      }
      pages += 1;
      if (pages === PAGES_SEARCHED || found.length >= most) break;
    }
    return found.slice(0, most);
  }

  /** Starts the listing again, because the service no longer accepts the cursor. */
  async restartWarmUp(): Promise<void> {
    await this.#redis.hdel(this.#keys.warmUp, "cursor", "relations");
  }

  /** @param reason as the client names it; status shows it. */
  async listingFailed(reason: string): Promise<void> {
    await this.#write("HSET", this.#keys.warmUp, "failure", reason);
  }

  /** From here on, changes are sent without a warm ledger. @param now ms */
  async continueCold(now: number): Promise<void> {
    await this.#write("HSET", this.#keys.warmUp, "state", "cold", "cold", now);
  }

  /**
   * Forgets rows of relations that the service does not have, proven before this time (ms). Rows of relations
   * that the service has must stay: without its row, a deletion would find nothing to terminate.
   * @returns how many rows were forgotten.
   */
  async forgetAbsent(before: number): Promise<number> {
    let forgotten = 0;
    for await (const page of this.#pages()) {
      const old = page.filter(([, text]) => {
        const { exists, uncertain, provedAt } = readRow(text);
        return exists === false && !uncertain && provedAt < before;
      });
      if (old.length > 0) forgotten += await this.#forget([this.#keys.ledger], old.flat());
    }
    return forgotten;
  }

  #pages(): AsyncGenerator<[crmCode: string, row: string][]> {
    return scanHash(this.#redis, this.#keys.ledger, PAGE);
  }
}
