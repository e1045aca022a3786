/**
 * Limits how many relations are terminated within 24 hours without a person's approval: a broken
 * export must not end many of them unasked. All processes share one count, which goes by Redis'
 * time. docs/adr/0017-the-guard-over-terminations.md says why it stands where it stands.
 */
import type { Redis } from "ioredis";
import { readOne, type Reading } from "../../base/redis-reading.ts";
import type { Keys } from "./keys.ts";
import { remember } from "./state-age.ts";
import { luaReading, Store } from "./store.ts";

/** A share of few relations allows so many terminations all the same. */
const FEW = 3;

/**
 * @param text a number, a share of the active relations, or both (`100,10%`: the smaller one counts), or `unlimited`
 * @param active how many relations are active
 * @returns Infinity: any number
 */
export function terminationLimit(text: string, active: number): number {
  const limits = text.split(",").map((part) => {
    if (part === "unlimited") return Number.POSITIVE_INFINITY;
    if (!part.endsWith("%")) return Number(part);
    return Math.max(FEW, Math.floor((active * Number(part.slice(0, -1))) / 100));
  });
  return Math.min(...limits);
}

export interface GuardOptions {
  /** As `terminationLimit` takes it; `unlimited`: everything is admitted, and nothing is counted. */
  readonly limit: string;
  readonly windowMs: number;
  /** Redis' time, ms. */
  readonly now?: () => number;
}

export class TerminationGuard extends Store {
  readonly limit: string;
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
    { approved, crmCode }: { readonly approved: boolean; readonly crmCode: string },
    when: "now" | "next",
  ): Promise<boolean> {
    if (approved || this.limit === "unlimited") return true;
    const counts = when === "now" ? "1" : "";
    const active = this.limit.includes("%") ? await readOne(this.redis, this.active()) : 0;
    const limit = terminationLimit(this.limit, active);
    const args = [crmCode, limit, this.#windowMs, counts];
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

  /** How many relations are active, those that count now included. */
  active(): Reading<number> {
    const { ledger, ledgerInactive, terminations } = this.keys;
    return luaReading("count-active", [ledger, ledgerInactive, terminations], [], Number);
  }

  /** How many count now. */
  counted(): Reading<number> {
    return luaReading("count-terminations", [this.keys.terminations], [this.#windowMs], Number);
  }
}
