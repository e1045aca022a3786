/**
 * Terminations beyond the limit (termination-guard.ts). Each stays in the staged hash of its record
 * until a person releases or drops it, or a newer event of the record replaces it.
 */
import type { Redis } from "ioredis";
import { reading, type Reading } from "../ops/redis-reading.ts";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import type { ActText } from "./audit-acts.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";
import { scanSorted } from "./scan.ts";
import { DamagedValue, type Sealing } from "./sealing.ts";
import { timeOfOrder, wholeOrder } from "./short-order.ts";
import { VERIFY_AFTER_MS } from "./staged-state.ts";
import { openTexts, readStagedFields } from "./staged-values.ts";

export interface HeldTermination {
  readonly crmCode: string;
  /** ms */
  readonly heldAt: number;
  /** When the change happened in the CRM, ms. */
  readonly time: number;
  readonly lane: Lane;
  /** The event, serialised. */
  readonly event: string;
}

/** Stands for an event that cannot be opened, so that one record does not hide all others. */
const DAMAGED = JSON.stringify({
  type: "an event that cannot be opened:",
  subject: "somebody has changed it in Redis",
});

/** Records read in one round trip. */
const PAGE = 200;

const NO_ACT: ActText = ["", ""];

export class HeldTerminations {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #sealing: Sealing;
  readonly #verifyAfterMs: number;
  readonly #history: Pick<History, "notedMs"> | undefined;
  readonly #release: RedisScript<Lane | "">;
  readonly #drop: RedisScript<number>;

  /** @param verifyAfterMs as for `StagedStates`. */
  constructor(
    redis: Redis,
    keys: Keys,
    sealing: Sealing,
    verifyAfterMs = VERIFY_AFTER_MS,
    history?: Pick<History, "notedMs">,
  ) {
    this.#history = history;
    this.#verifyAfterMs = verifyAfterMs;
    this.#redis = redis;
    this.#keys = keys;
    this.#sealing = sealing;
    this.#release = redisScript(redis, new URL("./lua/release-termination.lua", import.meta.url));
    this.#drop = redisScript(redis, new URL("./lua/drop-termination.lua", import.meta.url));
  }

  count(): Reading<number> {
    return reading(["zcard", this.#keys.heldTerminations], Number);
  }

  /** Since when the first of them is held, ms. */
  since(): Reading<number | undefined> {
    return reading(
      ["zrange", this.#keys.heldTerminations, 0, 0, "WITHSCORES"],
      ([, at]: string[]) => (at === undefined ? undefined : Number(at)),
    );
  }

  /** The records among these whose termination is held. */
  async among(crmCodes: readonly string[]): Promise<string[]> {
    if (crmCodes.length === 0) return [];
    const scores = await this.#redis.zmscore(this.#keys.heldTerminations, ...crmCodes);
    return crmCodes.filter((_, n) => scores[n] !== null);
  }

  /** All of them, in no order. */
  async *all(): AsyncGenerator<HeldTermination> {
    for await (const crmCodes of this.crmCodes()) {
      const found = await Promise.all(crmCodes.map((crmCode) => this.find(crmCode)));
      yield* found.filter((one) => one !== undefined);
    }
  }

  /** The crmCodes of all held terminations, a page at a time, in no order. */
  async *crmCodes(): AsyncGenerator<string[]> {
    for await (const page of scanSorted(this.#redis, this.#keys.heldTerminations, PAGE)) {
      yield page.map(([crmCode]) => crmCode);
    }
  }

  /** Held terminations from this position on, oldest first; fewer when a person has decided one meanwhile. */
  async page(from: number, count: number): Promise<HeldTermination[]> {
    const key = this.#keys.heldTerminations;
    const crmCodes = await this.#redis.zrange(key, String(from), String(from + count - 1));
    const found = await Promise.all(crmCodes.map((crmCode) => this.find(crmCode)));
    return found.filter((one) => one !== undefined);
  }

  async find(crmCode: string): Promise<HeldTermination | undefined> {
    const key = this.#keys.staged(crmCode);
    const [heldAt, fields] = await Promise.all([
      this.#redis.zscore(this.#keys.heldTerminations, crmCode),
      readStagedFields(this.#redis, key),
    ]);
    const [version, heldVersion, order = "", lane] = ["v", "hv", "o", "l"].map((name) =>
      fields.get(name)?.toString(),
    );
    // An older program may have replaced it without knowing of it.
    if (heldAt === null || !version || version !== heldVersion) return undefined;
    const { event, laterEvent } = await openTexts(fields, crmCode, this.#sealing).catch(
      (error: unknown) => {
        if (error instanceof DamagedValue) return { event: DAMAGED, laterEvent: undefined };
        throw error;
      },
    );
    return {
      crmCode,
      heldAt: Number(heldAt),
      // The field `t` may be the time of a redrive.
      time: timeOfOrder(wholeOrder(order)),
      lane: (lane ?? "live") as Lane,
      event: laterEvent ?? event,
    };
  }

  /**
   * Lets a held termination be sent. The caller then adds its pointer job; if it dies before, the sweep does.
   * @param act gets its line in the audit trail if it is done: another operator may be faster.
   * @returns its lane; undefined when it is not held any more.
   */
  async release(crmCode: string, act: ActText = NO_ACT): Promise<Lane | undefined> {
    const { auditActs, auditHeads, heldTerminations } = this.#keys;
    const lanes = LANES.map((lane) => this.#keys.unsynced(lane));
    const keys = [this.#keys.staged(crmCode), heldTerminations, ...lanes, auditActs, auditHeads];
    return (await this.#release(keys, [crmCode, ...act])) || undefined;
  }

  /** @param act as for `release`. @returns false when it is not held any more. */
  async drop(crmCode: string, act: ActText = NO_ACT): Promise<boolean> {
    const { auditActs, auditHeads, heldTerminations, verify } = this.#keys;
    const staged = this.#keys.staged(crmCode);
    const history = this.#keys.history("crmCode", crmCode);
    const keys = [staged, heldTerminations, verify, history, auditActs, auditHeads];
    const args = [crmCode, Math.ceil(this.#verifyAfterMs), this.#history?.notedMs ?? "", ...act];
    return (await this.#drop(keys, args)) === 1;
  }
}
