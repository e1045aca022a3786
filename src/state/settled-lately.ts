/**
 * What this process has settled lately, for the case that Redis goes back to an older state: a state
 * that waits there may be older than what the service has by now, and must not replace it.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { EarlierFields } from "../sync/ledger-row.ts";
import { VERIFY_AFTER_MS } from "./staged-state.ts";
import { LANES } from "../sync/lane.ts";
import type { TakenState } from "../sync/staged-state.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";

/** A replica lacks seconds, at most minutes: to send this many records takes ten hours. */
const MAX_RECORDS = 10_000;

/** Records restored in one round trip. */
const CHUNK = 500;

interface Settled {
  readonly order: string;
  readonly earlierFields: EarlierFields | undefined;
}

export class SettledLately {
  readonly #keys: Keys;
  readonly #verifyAfterMs: number;
  readonly #history: Pick<History, "notedMs"> | undefined;
  readonly #restore: RedisScript<number>;
  /** crmCode → the newest that was settled, oldest first. */
  readonly #settled = new Map<string, Settled>();

  /** @param verifyAfterMs as for `StagedStates`. */
  constructor(
    redis: Redis,
    keys: Keys,
    verifyAfterMs = VERIFY_AFTER_MS,
    history?: Pick<History, "notedMs">,
  ) {
    this.#history = history;
    this.#keys = keys;
    this.#verifyAfterMs = verifyAfterMs;
    this.#restore = redisScript(redis, new URL("./lua/restore-watermark.lua", import.meta.url));
  }

  note({ crmCode, order, earlierFields }: Pick<TakenState, "crmCode" | keyof Settled>): void {
    this.#settled.delete(crmCode);
    this.#settled.set(crmCode, { order, earlierFields });
    const [oldest] = this.#settled.keys();
    if (this.#settled.size > MAX_RECORDS && oldest !== undefined) this.#settled.delete(oldest);
  }

  /**
   * Tells Redis again what was settled, and drops older states that wait there.
   * @returns how many were dropped.
   */
  async restore(): Promise<number> {
    const all = [...this.#settled];
    let dropped = 0;
    for (let from = 0; from < all.length; from += CHUNK) {
      const chunk = all.slice(from, from + CHUNK);
      const counts = await Promise.all(chunk.map((entry) => this.#restoreOne(...entry)));
      dropped += counts.reduce((sum, count) => sum + count, 0);
    }
    return dropped;
  }

  #restoreOne(crmCode: string, { order, earlierFields }: Settled): Promise<number> {
    const lanes = LANES.map((lane) => this.#keys.unsynced(lane));
    const fields = [earlierFields?.order ?? "", earlierFields?.status ?? ""];
    const { heldTerminations, ledger, verify, verifyProofs } = this.#keys;
    const proofs = [verify, verifyProofs, this.#keys.history("crmCode", crmCode)];
    return this.#restore(
      [ledger, this.#keys.staged(crmCode), ...lanes, heldTerminations, ...proofs],
      [crmCode, order, ...fields, Math.ceil(this.#verifyAfterMs), this.#history?.notedMs ?? ""],
    );
  }
}
