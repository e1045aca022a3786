/** When the last event of each source was received, and whose clock is wrong. */
import { AT_FIRST, afterEvent, type SourceClock } from "../sync/source-clock.ts";
import { hashReading, readOne, type Reading } from "../ops/redis-reading.ts";
import { Store } from "./store.ts";

/** A source is written at most this often: an alert on a silent source needs no more. */
const EVERY_MS = 1000;

/** Most sources that are kept, each a series in the metrics. A process counts by as many. */
export const MAX_SOURCES = 50;

/** A clock that is ahead by less counts as right, ms: machines that keep no time differ by seconds. */
const AHEAD_MS = 5000;

/** Status shows a report of lost changes for this long, ms, or until the next comparison. */
const LOST_TOLD_MS = 7 * 86_400_000;

/** What another process has noticed of a source's clock is read at most this often, ms. */
const READ_MS = 5000;

/**
 * By how much a source's clock was ahead of Redis' clock, and when it was seen, ms. Negative: it was set back;
 * until it is right, its events count as of their arrival.
 */
export interface ClockAhead {
  readonly aheadMs: number;
  readonly at: number;
  readonly isRight?: boolean;
}

/** @returns what an entry of the hash says: when the source was heard, and its latest time, ms. */
function heardOf(text: string): { readonly at: number; readonly newest?: number } {
  const value = JSON.parse(text) as number | { readonly at: number; readonly newest?: number };
  return typeof value === "number" ? { at: value } : value;
}

export class Sources extends Store {
  readonly #noted = new Map<string, number>();
  readonly #notedAhead = new Map<string, number>();
  readonly #clocks = new Map<string, SourceClock>();
  /** The last read of each source's clock, and when it began. */
  readonly #reads = new Map<string, { readonly at: number; readonly done: Promise<void> }>();

  /** @param source from a bounded set of names. @param at when its event was received, ms. */
  async heard(source: string, at: number): Promise<void> {
    if (at - (this.#noted.get(source) ?? 0) < EVERY_MS) return;
    this.#noted.set(source, at);
    const newest = this.#clocks.get(source)?.newest;
    await this.write("HSET", this.keys.sources, source, JSON.stringify({ at, newest }));
  }

  /**
   * Notes the time of a live event, before it is accepted.
   * @param source from a bounded set of names. @param at when it arrived, ms.
   * @returns whether the source's clock was set back, and whether that is noticed only now.
   */
  async dated(source: string, time: number, at: number) {
    await this.#readClock(source, at);
    const before = this.#clocks.get(source) ?? AT_FIRST;
    const after = afterEvent(before, time, at);
    this.#clocks.set(source, after);
    const { behindMs, isBack } = after;
    const wasBack = before.isBack;
    if (isBack) await this.#noteClock(source, { aheadMs: -behindMs, at });
    else if (wasBack) {
      this.#notedAhead.delete(source);
      await this.#noteClock(source, { aheadMs: -before.behindMs, at, isRight: true });
    }
    return { behindMs, isBack, isNew: isBack && !wasBack };
  }

  /** Whether a source's clock was set back and is not right yet. @param at present time, ms. */
  async isBack(source: string, at: number): Promise<boolean> {
    await this.#readClock(source, at);
    return this.#clocks.get(source)?.isBack === true;
  }

  /** Adopts what another process, or this one before its restart, knew of the source's clock. */
  async #readClock(source: string, at: number): Promise<void> {
    const last = this.#reads.get(source);
    // Events that come during a read wait for it.
    if (last !== undefined && at - last.at < READ_MS) return last.done;
    const done = this.#adoptClock(source, last === undefined);
    this.#reads.set(source, { at, done });
    try {
      await done;
    } catch (error) {
      this.#reads.delete(source);
      throw error;
    }
  }

  async #adoptClock(source: string, isFirst: boolean): Promise<void> {
    const { clocksAhead, sources } = this.keys;
    const text = await this.redis.hget(clocksAhead, source);
    const seen = text === null ? undefined : (JSON.parse(text) as ClockAhead);
    const isBack = seen !== undefined && seen.aheadMs < 0 && seen.isRight !== true;
    const heard = isFirst ? await this.redis.hget(sources, source) : null;
    const clock = this.#clocks.get(source);
    const newest = Math.max(
      clock?.newest ?? Number.NEGATIVE_INFINITY,
      (heard === null ? undefined : heardOf(heard).newest) ?? Number.NEGATIVE_INFINITY,
    );
    if (isBack) {
      this.#clocks.set(source, { ...AT_FIRST, newest, behindMs: -seen.aheadMs, isBack });
    } else if (clock?.isBack === true && seen?.isRight === true) {
      this.#clocks.set(source, { ...AT_FIRST, newest });
    } else {
      this.#clocks.set(source, { ...(clock ?? AT_FIRST), newest });
    }
  }

  async #noteClock(source: string, seen: ClockAhead): Promise<void> {
    if (seen.at - (this.#notedAhead.get(source) ?? 0) < EVERY_MS) return;
    this.#notedAhead.set(source, seen.at);
    await this.write("HSET", this.keys.clocksAhead, source, JSON.stringify(seen));
  }

  /**
   * Notes that an event of a source is dated later than it arrived.
   * @param source from a bounded set of names. @param at when it arrived, ms.
   */
  async datedAhead(source: string, time: number, at: number): Promise<void> {
    const aheadMs = Math.round(time - at);
    if (aheadMs > AHEAD_MS) await this.#noteClock(source, { aheadMs, at });
  }

  /**
   * Forgets the sources that were silent for longest. After its start each process adds new names, so senders
   * that make new names all the time would fill the hash.
   */
  async forgetOldest(): Promise<void> {
    const { clocksAhead, sources } = this.keys;
    if ((await this.redis.hlen(sources)) <= MAX_SOURCES) return;
    const newestFirst = Object.entries(await readOne(this.redis, this.last())).sort(
      ([, a], [, b]) => b - a,
    );
    const oldest = newestFirst.slice(MAX_SOURCES).map(([source]) => source);
    for (const key of [sources, clocksAhead]) await this.write("HDEL", key, ...oldest);
  }

  /** The CRM of a webhook has lost changes before it sent them. @param at when it said so, ms. */
  async hasLost(webhook: string, at: number): Promise<void> {
    await this.write("HSET", this.keys.changesLost, webhook, at);
    await this.redis.pexpire(this.keys.changesLost, LOST_TOLD_MS);
  }

  /** Webhook → when its CRM reported lost changes last, ms. */
  lost(): Reading<Record<string, number>> {
    return hashReading(this.keys.changesLost, Number);
  }

  /** Source → how wrong its clock was when that was last seen. */
  clocksAhead(): Reading<Record<string, ClockAhead>> {
    return hashReading(this.keys.clocksAhead, (text) => JSON.parse(text) as ClockAhead);
  }

  /** Source → time of its newest event, ms. */
  last(): Reading<Record<string, number>> {
    return hashReading(this.keys.sources, (text) => heardOf(text).at);
  }
}
