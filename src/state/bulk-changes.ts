/** The changes that wait in the lane bulk, and how they are dropped: a few at once, so that Redis serves others. */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";
import { scanSorted } from "./scan.ts";
import { seenKeys } from "./seen-keys.ts";

/** Records that are read in one round trip. */
const PAGE = 500;

/** Records in one call of the script. */
const BATCH = 25;

export interface Dropped {
  /** Changes that are under way, and end as they would. */
  readonly busy: number;
  readonly crmCodes: readonly string[];
}

type NotedHistory = Pick<History, "note" | "notedMs">;

export class BulkChanges {
  readonly #history: NotedHistory;
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #verifyAfterMs: number;
  readonly #cancel: RedisScript<[number, string[]]>;

  /** @param verifyAfterMs after how long a request is verified that had no answer. */
  constructor(redis: Redis, keys: Keys, verifyAfterMs: number, history: NotedHistory) {
    this.#history = history;
    this.#redis = redis;
    this.#keys = keys;
    this.#verifyAfterMs = verifyAfterMs;
    this.#cancel = redisScript(redis, new URL("./lua/cancel-bulk.lua", import.meta.url));
  }

  /** crmCodes of all that wait, a page at a time; what is dropped meanwhile does no harm. */
  async *waiting(): AsyncGenerator<string[]> {
    for await (const page of scanSorted(this.#redis, this.#keys.unsynced("bulk"), PAGE)) {
      yield page.map(([crmCode]) => crmCode);
    }
  }

  /**
   * Drops the bulk changes of these records. The ledger keeps what was proven of them, and their
   * events may be sent again.
   * @param last leaves alone what was staged with a higher number.
   */
  async drop(
    crmCodes: readonly string[],
    last: number = Number.MAX_SAFE_INTEGER,
  ): Promise<Dropped> {
    const { bulkCancelled, verify } = this.#keys;
    const seen = seenKeys(this.#keys);
    const fixed = [this.#keys.unsynced("bulk"), verify, bulkCancelled, ...seen];
    const found: Dropped[] = [];
    for (let from = 0; from < crmCodes.length; from += BATCH) {
      const batch = crmCodes.slice(from, from + BATCH);
      const ofEach = batch.flatMap((crmCode) => [
        this.#keys.staged(crmCode),
        this.#keys.history("crmCode", crmCode),
      ]);
      const args = [last, Math.ceil(this.#verifyAfterMs), this.#history.notedMs, ...batch];
      const [busy, dropped] = await this.#cancel([...fixed, ...ofEach], args);
      found.push({ busy, crmCodes: dropped });
    }
    for (const crmCode of found.flatMap((one) => one.crmCodes)) {
      this.#history.note({ crmCode }, { kind: "act", act: "bulk.cancel" });
    }
    return {
      busy: found.reduce((sum, { busy }) => sum + busy, 0),
      crmCodes: found.flatMap((one) => one.crmCodes),
    };
  }

  /** The records among these that have a change, and its lane. */
  async stagedAgain(
    crmCodes: readonly string[],
  ): Promise<{ readonly crmCode: string; readonly lane: Lane }[]> {
    if (crmCodes.length === 0) return [];
    const found = await Promise.all(
      LANES.map(async (lane) => {
        const scores = await this.#redis.zmscore(this.#keys.unsynced(lane), ...crmCodes);
        const present = crmCodes.filter((_, index) => (scores[index] ?? null) !== null);
        return present.map((crmCode) => ({ crmCode, lane }));
      }),
    );
    return found.flat();
  }

  /** How many were dropped since the last call of any process. */
  async takeCount(): Promise<number> {
    return Number((await this.#redis.getdel(this.#keys.bulkCancelled)) ?? 0);
  }
}
