/**
 * Limits how many relations are terminated within 24 hours without a person's approval: a broken
 * export must not end many of them unasked. All processes share one count, which goes by Redis'
 * time. docs/adr/0017-the-guard-over-terminations.md says why it stands where it stands.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../ops/redis-reading.ts";
import type { TakenState } from "../sync/record.ts";
import type { Keys } from "./keys.ts";
import { remember } from "./state-age.ts";
import { luaReading, Store } from "./store.ts";

export interface GuardOptions {
  /** Infinity: everything is admitted, and nothing is counted. */
  readonly limit: number;
  readonly windowMs: number;
  /** Redis' time, ms. */
  readonly now?: () => number;
}

export class TerminationGuard extends Store {
  readonly limit: number;
  readonly #windowMs: number;
  readonly #now: () => number;
  readonly #admit = this.script<number>("admit-termination");
  /** crmCode → when this process has sent its termination, ms; oldest first: for a Redis that goes back. */
  readonly #sent = new Map<string, number>();

  constructor(redis: Redis, keys: Keys, { limit, windowMs, now = Date.now }: GuardOptions) {
    super(redis, keys);
    this.limit = limit;
    this.#windowMs = windowMs;
    this.#now = now;
  }

  /**
   * Whether this record's relation may be terminated: a person has approved it, or the limit is not reached.
   * @param when `now`: it is sent now, and counts; `next`: it is only read now.
   */
  async admit(
    { approved, crmCode }: Pick<TakenState, "approved" | "crmCode">,
    when: "now" | "next",
  ): Promise<boolean> {
    if (approved || this.limit === Number.POSITIVE_INFINITY) return true;
    const counts = when === "now" ? "1" : "";
    const args = [crmCode, this.limit, this.#windowMs, counts];
    const admitted = await this.#admit([this.keys.terminations], args);
    if (admitted === 1 && when === "now") remember(this.#sent, crmCode, this.#now());
    return admitted === 1;
  }

  /** Tells a Redis that went back what this process has sent; too many is safer than too few. */
  async restore(): Promise<void> {
    const { terminations } = this.keys;
    for (const [crmCode, at] of this.#sent) {
      await this.write("ZADD", terminations, "GT", at, crmCode);
    }
  }

  /** How many count now. */
  counted(): Reading<number> {
    return luaReading("count-terminations", [this.keys.terminations], [this.#windowMs], Number);
  }
}
