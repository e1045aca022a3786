/** What is known of one record under its crmCode, beside dead letters: looked at, or erased. */
import type { Redis } from "ioredis";
import { quotaKeys } from "../quota/quota-keys.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Stores } from "../status/stores.ts";
import { LANES } from "../sync/lane.ts";

/** A day longer than ids of events are surely remembered: then no sender sends an older event again. */
const ORDER_KEPT_S = 8 * 86_400;

const KINDS = ["staged", "ledger", "verify", "tries", "place", "history"] as const;

export type RecordTrace = (typeof KINDS)[number] | "job";

export interface RecordTraces {
  readonly found: readonly RecordTrace[];
  /** A request of the record is under way; nothing is erased until it has ended. */
  readonly isHeld: boolean;
}

type Reply = [isHeld: number, ...found: number[]];

export class Records {
  readonly #stores: Stores;
  readonly #quotaKeys: ReturnType<typeof quotaKeys>;
  readonly #run: RedisScript<Reply>;

  constructor(stores: Stores, redis: Redis = stores.redis) {
    this.#stores = stores;
    this.#quotaKeys = quotaKeys(stores.config.QUEUE_PREFIX);
    this.#run = redisScript(redis, new URL("./lua/erase-record.lua", import.meta.url));
  }

  look(crmCode: string): Promise<RecordTraces> {
    return this.#traces(crmCode, "look");
  }

  /** In one step, so that no worker can take the record in between. @returns what it has erased. */
  async erase(crmCode: string): Promise<RecordTraces> {
    const { found, isHeld } = await this.#traces(crmCode, "erase");
    if (isHeld) return { found: [], isHeld };
    await this.#stores.pointers.remove(crmCode);
    // A job that runs ends by itself: it finds nothing to send.
    const runs = found.includes("job") && (await this.#stores.pointers.hasJob(crmCode));
    return { found: runs ? found.filter((kind) => kind !== "job") : found, isHeld };
  }

  async #traces(crmCode: string, how: "look" | "erase"): Promise<RecordTraces> {
    const hasJob = await this.#stores.pointers.hasJob(crmCode);
    const [isHeld, ...flags] = await this.#run(this.#keys(crmCode), [crmCode, how, ORDER_KEPT_S]);
    const found: RecordTrace[] = KINDS.filter((_, index) => flags[index] === 1);
    return { found: hasJob ? [...found, "job"] : found, isHeld: isHeld === 1 };
  }

  #keys(crmCode: string): string[] {
    const { keys } = this.#stores;
    const { priorities, postponed, postponedRanks } = this.#quotaKeys;
    return [
      keys.staged(crmCode),
      keys.ledger,
      keys.ledgerForgotten,
      ...LANES.map((lane) => keys.unsynced(lane)),
      keys.verify,
      keys.verifyProofs,
      keys.retried,
      keys.retriedDetails,
      keys.outageRecords,
      priorities,
      postponed,
      postponedRanks,
      keys.erased(crmCode),
      keys.terminations,
      keys.heldTerminations,
      keys.history("crmCode", crmCode),
      keys.outageSuspects,
    ];
  }
}
