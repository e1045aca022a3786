/** When the last event of each source was received, and whose clock is wrong. */
import { hashReading, readOne, type Reading } from "../../base/redis-reading.ts";
import { Store } from "./store.ts";

/** A source is written at most this often: an alert on a silent source needs no more. */
const EVERY_MS = 1000;

/** Most sources that are kept, each a series in the metrics. A process counts by as many. */
export const MAX_SOURCES = 50;

/** A clock that is ahead by less counts as right, ms: machines that keep no time differ by seconds. */
const AHEAD_MS = 5000;

/** Status shows a report of lost changes for this long, ms, or until the next comparison. */
const LOST_TOLD_MS = 7 * 86_400_000;
const UNDATED_TOLD_MS = 86_400_000;

/** Pauses count for two weeks: so a weekend is among them. */
export const PAUSES_MS = 14 * 86_400_000;

/** A shorter pause changes nothing: no source is silent before an hour has passed, ms. */
const SHORTEST_PAUSE_MS = 2_400_000;

/** When a source pauses. Times in ms. */
export interface Pauses {
  /** When its first event was received, since it is known. */
  readonly since: number;
  /** Of two weeks, each shorter than the one before: when it ended, how long it took. */
  readonly pauses: readonly (readonly [endedAt: number, tookMs: number])[];
}

/** By how much a source's clock was ahead of Redis' clock, and when it was seen, ms. */
export interface ClockAhead {
  readonly aheadMs: number;
  readonly at: number;
}

export class Sources extends Store {
  readonly #noted = new Map<string, number>();
  readonly #notedAhead = new Map<string, number>();

  /** @param source from a bounded set of names. @param at when its event was received, ms. */
  async heard(source: string, at: number): Promise<void> {
    const notedAt = this.#noted.get(source) ?? 0;
    if (at - notedAt < EVERY_MS) return;
    this.#noted.set(source, at);
    if (at - notedAt >= SHORTEST_PAUSE_MS) await this.#notePause(source, at);
    await this.write("HSET", this.keys.sources, source, at);
  }

  /** Processes that hear it at the same time find the same pause. */
  async #notePause(source: string, at: number): Promise<void> {
    const { sourcePauses, sources } = this.keys;
    const [last, text] = await Promise.all([
      this.redis.hget(sources, source),
      this.redis.hget(sourcePauses, source),
    ]);
    const known: Pauses = text === null ? { since: at, pauses: [] } : pausesIn(text);
    const tookMs = at - Number(last ?? at);
    const isPause = tookMs >= SHORTEST_PAUSE_MS;
    if (text !== null && !isPause) return;
    const longer = known.pauses.filter(
      ([endedAt, ms]) => endedAt > at - PAUSES_MS && (!isPause || ms > tookMs),
    );
    const pauses = isPause ? [...longer, [at, tookMs]] : longer;
    await this.write("HSET", sourcePauses, source, JSON.stringify({ ...known, pauses }));
  }

  /** Source → when it pauses. */
  pauses(): Reading<Record<string, Pauses>> {
    return hashReading(this.keys.sourcePauses, pausesIn);
  }

  /**
   * Notes that an event of a source is dated later than it arrived.
   * @param source from a bounded set of names. @param at when it arrived, ms.
   */
  async datedAhead(source: string, time: number, at: number): Promise<void> {
    const aheadMs = Math.round(time - at);
    if (aheadMs <= AHEAD_MS || at - (this.#notedAhead.get(source) ?? 0) < EVERY_MS) return;
    this.#notedAhead.set(source, at);
    const seen: ClockAhead = { aheadMs, at };
    await this.write("HSET", this.keys.clocksAhead, source, JSON.stringify(seen));
  }

  /**
   * Forgets the sources that were silent for longest. After its start each process adds new names, so senders
   * that make new names all the time would fill the hash.
   */
  async forgetOldest(): Promise<void> {
    const { clocksAhead, sourcePauses, sources } = this.keys;
    if ((await this.redis.hlen(sources)) <= MAX_SOURCES) return;
    const newestFirst = Object.entries(await readOne(this.redis, this.last())).sort(
      ([, a], [, b]) => b - a,
    );
    const oldest = newestFirst.slice(MAX_SOURCES).map(([source]) => source);
    for (const key of [sources, sourcePauses, clocksAhead])
      await this.write("HDEL", key, ...oldest);
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

  /** A webhook has dated a change by a time that stands for none. @param at when, ms. */
  async isUndated(webhook: string, at: number): Promise<void> {
    await this.write("HSET", this.keys.undated, webhook, at);
    await this.redis.pexpire(this.keys.undated, UNDATED_TOLD_MS);
  }

  /** Webhook → when it did so last, ms. */
  undated(): Reading<Record<string, number>> {
    return hashReading(this.keys.undated, Number);
  }

  /** Source → how far its clock was ahead when that was last seen. */
  clocksAhead(): Reading<Record<string, ClockAhead>> {
    return hashReading(this.keys.clocksAhead, (text) => JSON.parse(text) as ClockAhead);
  }

  /** Source → time of its newest event, ms. */
  last(): Reading<Record<string, number>> {
    return hashReading(this.keys.sources, Number);
  }
}

const pausesIn = (text: string): Pauses => JSON.parse(text) as Pauses;
