/**
 * What this process has settled lately, for the case that Redis goes back to an older state: a state
 * that waits there may be older than what the service has by now, and must not replace it.
 */
import type { Orders } from "../sync/ledger-row.ts";
import { restore } from "../sync/person.ts";
import { VERIFY_AFTER_MS } from "../sync/record.ts";
import type { TakenState } from "../sync/staged-state.ts";
import type { RecordStore } from "./record-store.ts";

/** A replica lacks seconds, at most minutes: to send this many records takes ten hours. */
const MAX_RECORDS = 10_000;

/** Records restored in one round trip. */
const CHUNK = 500;

export class SettledLately {
  readonly #store: RecordStore;
  readonly #verifyMs: number;
  /** crmCode → the newest that was settled, oldest first. */
  readonly #settled = new Map<string, Orders>();

  constructor(store: RecordStore, verifyMs: number = VERIFY_AFTER_MS) {
    this.#store = store;
    this.#verifyMs = Math.ceil(verifyMs);
  }

  note({ crmCode, orders }: Pick<TakenState, "crmCode" | "orders">): void {
    this.#settled.delete(crmCode);
    this.#settled.set(crmCode, orders);
    const [oldest] = this.#settled.keys();
    if (this.#settled.size > MAX_RECORDS && oldest !== undefined) this.#settled.delete(oldest);
  }

  /** crmCodes of those that were settled last, the newest first. */
  latest(count: number): string[] {
    return [...this.#settled.keys()].slice(-count).toReversed();
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
      const ends = await Promise.all(chunk.map((entry) => this.#restoreOne(...entry)));
      dropped += ends.filter((isDropped) => isDropped).length;
    }
    return dropped;
  }

  #restoreOne(crmCode: string, settled: Orders): Promise<boolean> {
    return this.#store.change(crmCode, [], (read) => {
      const { dropped, record } = restore(read, settled, { ...read, verifyMs: this.#verifyMs });
      return { record, outcome: dropped };
    });
  }
}
