/**
 * Notices that Redis went backwards: it was restored from an older copy, was emptied, or a replica took
 * over that lacked the last writes. What it says of the service is then too old to be believed.
 */
import { randomUUID } from "node:crypto";
import { jsonReading, type Reading } from "../../base/redis-reading.ts";
import { type Call, Store } from "./store.ts";
import { NO_ORDERS, type Orders } from "../sync/ledger-row.ts";
import { restore } from "../sync/person.ts";
import type { Settlement, TakenState } from "../sync/run.ts";
import { OfRecords } from "./record-store.ts";

/** For how long status tells that Redis went backwards, ms. */
const TELL_FOR_MS = 86_400_000;

/** For how long the counts of a process that has ended are kept, ms. */
const KEPT_MS = 7 * 86_400_000;

/** That time begins anew once in so many ticks. */
const TICKS_KEPT = 1000;

export class StateAge extends Store {
  /** Counts of this process alone: those of others must not hide that its own are lost. */
  readonly key = this.keys.age(randomUUID());
  /** The last tick, and how many settled changes Redis must know at least. */
  #ticks = 0;
  /** Ticks since the key is kept for so long. */
  #unkept = 0;
  #settled = 0;
  #wentBackwards = false;
  #wentBackAt = Number.NEGATIVE_INFINITY;
  #counting: Promise<unknown> = Promise.resolve();

  /** Counts a settled change, in the step that settles it. Call `settled` when that is done. */
  settleCall(): Call {
    return ["HINCRBY", this.key, "settled", 1];
  }

  settled(): void {
    this.#settled += 1;
  }

  /** Counts a tick, and compares with what Redis has counted before. */
  count(): Promise<void> {
    // One after the other: two could read their numbers in the wrong order.
    const counted = this.#counting.then(async () => {
      const atLeast = this.#settled;
      const [ticks, settledText] = (await this.writes([
        ["HINCRBY", this.key, "ticks", 1],
        ["HGET", this.key, "settled"],
        ...(this.#unkept === 0 ? [["PEXPIRE", this.key, KEPT_MS] as const] : []),
      ])) as [ticks: number, settled: string | null];
      const settled = Number(settledText);
      const wentBack = ticks <= this.#ticks || settled < atLeast;
      if (wentBack) {
        this.#wentBackwards = true;
        this.#wentBackAt = performance.now();
        this.#settled += Math.min(0, settled - atLeast);
      }
      this.#ticks = ticks;
      // A key that Redis has forgotten is made anew.
      this.#unkept = wentBack ? 0 : (this.#unkept + 1) % TICKS_KEPT;
    });
    this.#counting = counted.catch(() => {});
    return counted;
  }

  /** Counts, too. @returns whether Redis has forgotten what this process had counted, until `note` is called. */
  async wentBackwards(): Promise<boolean> {
    await this.count();
    return this.#wentBackwards;
  }

  /** Counts, too. @returns whether Redis went backwards within this time, ms. */
  async wentBackWithin(ms: number): Promise<boolean> {
    await this.count();
    return performance.now() - this.#wentBackAt <= ms;
  }

  /** Lets status tell for a day that Redis went backwards. Call it once nothing believes the old state. */
  async note(at: number): Promise<void> {
    await this.write("SET", this.keys.wentBackwards, at, "PX", TELL_FOR_MS);
    this.#wentBackwards = false;
  }

  /** When it was noticed, ms; undefined when it was not, or long ago. */
  wentBackwardsAt(): Reading<number | undefined> {
    return jsonReading("get", this.keys.wentBackwards);
  }
}

/** Most that a process remembers. A replica lacks seconds, at most minutes: to send so many takes ten hours. */
const MOST_REMEMBERED = 10_000;

/** @param sent crmCode → what was sent of it, oldest first */
export function remember<Sent>(sent: Map<string, Sent>, crmCode: string, last: Sent): void {
  sent.delete(crmCode);
  sent.set(crmCode, last);
  const [oldest = ""] = sent.keys();
  if (sent.size > MOST_REMEMBERED) sent.delete(oldest);
}

/** Records restored in one round trip. */
const CHUNK = 500;

/**
 * What this process has settled lately, for the case that Redis goes back to an older state: a state
 * that waits there may be older than what the service has by now, and must not replace it.
 */
export class SettledLately extends OfRecords {
  /** crmCode → the newest that was settled, and until when a request may take effect, oldest first. */
  readonly #settled = new Map<string, { readonly orders: Orders; readonly openUntil?: number }>();

  /** @param now ms */
  note(
    { crmCode, orders }: Pick<TakenState, "crmCode" | "orders">,
    { confirmed, finished, openMs, row }: Settlement,
    now: number,
  ): void {
    const before = this.#settled.get(crmCode);
    // What was rejected is not on the service: an older state may still be sent.
    const isThere = finished && row !== "before";
    if (!isThere && openMs === undefined) return;
    const earlier = confirmed === true ? undefined : before?.openUntil;
    const openUntil = openMs === undefined ? earlier : now + openMs;
    remember(this.#settled, crmCode, {
      orders: isThere ? orders : (before?.orders ?? NO_ORDERS),
      ...(openUntil !== undefined && { openUntil }),
    });
  }

  /** crmCodes of those that were settled last, the newest first. */
  latest(count: number): string[] {
    const settled = [...this.#settled].filter(([, { orders }]) => orders !== NO_ORDERS);
    return settled
      .map(([crmCode]) => crmCode)
      .slice(-count)
      .toReversed();
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

  #restoreOne(
    crmCode: string,
    { openUntil, orders }: { readonly orders: Orders; readonly openUntil?: number },
  ): Promise<boolean> {
    return this.records.change(crmCode, [], (read) => {
      const { dropped, record } = restore(read, orders, openUntil);
      return { record, outcome: dropped };
    });
  }
}
