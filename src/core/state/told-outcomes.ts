/**
 * Outcomes that wait to be told (OUTCOME_WEBHOOK). The write that settles a change, rejects or holds it puts its outcome
 * into a hash, over the one that waits of the same record; a rejection or hold that has ended has a place of its own
 * there. So many as fit into one request become a message at a time. Before that, all that wait are set apart: what comes
 * later of a record is told later.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { reading, type Reading } from "../../base/redis-reading.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import type { KnownRecord, LetterMark } from "../sync/record.ts";
import { clearedBy, merged, outgoing, toldOf, type About, type Told } from "../sync/told.ts";
import { readAll, type Call } from "./store.ts";
import { scanHash } from "./scan.ts";
import type { Keys } from "./keys.ts";
import { MessageQueue, type WaitingMessage } from "./message-queue.ts";
import type { Sealing } from "./sealing.ts";

/** Records of which an outcome may wait; further outcomes are left out. */
const MOST_WAITING = 10_000;

/** Outcomes in one request. */
const MOST_AT_ONCE = 100;

/** After failing for so many hour windows, what waits is dropped; then it is tried once in an hour window. */
const GIVE_UP_HOURS = 24;

export const toldOffAfterMs = (hourMs: number): number => GIVE_UP_HOURS * hourMs;

/** For how long it is known how many were left out, in hour windows. */
const LEFT_OUT_HOURS = 24;

/** Begins the name of a rejection or hold that has ended. */
const ENDED = "-";

export interface OutcomeMessage extends WaitingMessage {
  /** Of a record by the id that its dead letter has. */
  readonly outcomes: readonly (readonly [id: string, told: Told])[];
}

/** For which name the texts of a record are sealed: its crmCode; of an event without one, the id of its letter. */
export const sealedNameOf = (id: string): string => id.replace(/^-?c:|^-/, "");

const crmCodeIn = (id: string): string | undefined =>
  id.startsWith("c:") ? sealedNameOf(id) : undefined;

export class ToldOutcomes extends MessageQueue<OutcomeMessage> {
  /** Without OUTCOME_WEBHOOK nothing is kept. */
  readonly isOn: boolean;
  readonly #sealing: Sealing;
  /** How many more may wait, as far as this process knows. */
  #room = MOST_WAITING;

  constructor(
    redis: Redis,
    keys: Keys,
    sealing: Sealing,
    { hourMs, isOn }: { readonly hourMs: number; readonly isOn: boolean },
  ) {
    super(redis, keys, {
      queue: keys.toldQueue,
      tried: keys.toldTry,
      hourMs,
      giveUpHours: Number.POSITIVE_INFINITY,
      giveUpRefusedHours: 1,
      failureHours: 2,
    });
    this.#sealing = sealing;
    this.isOn = isOn;
  }

  /** @returns undefined where nothing names the record, or needs to: no outcome is sent, and it has no owner. */
  async seal(id: string, { owner, source, subject }: About): Promise<string | undefined> {
    if (subject === "" || (!this.isOn && owner === undefined)) return undefined;
    return this.#sealing.seal(JSON.stringify({ source, subject, owner }), sealedNameOf(id));
  }

  callsOf(id: string, told: Told): Call[] {
    if (!this.isOn) return [];
    const { toldWaiting } = this.keys;
    const field = told.outcome === "cleared" ? `${ENDED}${id}` : id;
    this.#room -= 1;
    if (this.#room >= 0) return [["HSET", toldWaiting, field, JSON.stringify(told)]];
    // Not even the older one: it would not be true.
    return [["HDEL", toldWaiting, field], ...this.#leftOutCalls(1)];
  }

  /** What a change of a record is told as, beside what its caller tells. */
  callsOfChange(
    crmCode: string,
    before: KnownRecord,
    after: KnownRecord & { readonly now: number },
  ): Call[] {
    if (!this.isOn || crmCode === "") return [];
    return toldOf(before, after, after.now).flatMap((told) =>
      this.callsOf(deadLetterId(crmCode), told),
    );
  }

  /** The letter of this id is dropped. */
  async callsOfDropped(id: string, mark: LetterMark): Promise<Call[]> {
    return this.isOn ? this.callsOf(id, clearedBy(mark, await this.time())) : [];
  }

  /** What waits and is in no message yet, and whose it is; also without OUTCOME_WEBHOOK, from a time when it was set. */
  async *named(): AsyncGenerator<{ name: string; crmCode?: string; subject?: string }> {
    const { toldSending, toldWaiting } = this.keys;
    for (const key of [toldWaiting, toldSending]) {
      for await (const fields of scanHash(this.redis, key, MOST_AT_ONCE)) {
        for (const [name, text] of fields) {
          const id = name.startsWith(ENDED) ? name.slice(1) : name;
          const crmCode = crmCodeIn(id);
          const { about } = JSON.parse(text) as Told;
          const known = crmCode === undefined && (await this.openAbout(id, about).catch(() => {}));
          yield { name, ...(crmCode && { crmCode }), ...(known && { subject: known.subject }) };
        }
      }
    }
  }

  /** Erases one of `named`. */
  async erase(name: string): Promise<boolean> {
    const { toldSending, toldWaiting } = this.keys;
    const erased = await this.writes([toldWaiting, toldSending].map((key) => ["HDEL", key, name]));
    return erased.includes(1);
  }

  #leftOutCalls(count: number): Call[] {
    const { toldLeftOut } = this.keys;
    return [
      ["INCRBY", toldLeftOut, count],
      ["PEXPIRE", toldLeftOut, Math.ceil(LEFT_OUT_HOURS * this.policy.hourMs)],
    ];
  }

  /** How many more outcomes may wait. */
  async room(): Promise<number> {
    return MOST_WAITING - (await this.redis.hlen(this.keys.toldWaiting));
  }

  setRoom(room: number): void {
    this.#room = room;
  }

  /** Whether this process gathers now: one process does in this time, ms. */
  claimGather(forMs: number): Promise<boolean> {
    return this.claimFor(this.keys.toldGather, forMs);
  }

  /** Makes one message of what waits, if none waits to be sent. */
  async gather(): Promise<void> {
    const { toldQueue, toldSending, toldTry, toldWaiting } = this.keys;
    const [queued, setApart, waiting, [since, due]] = (await readAll(this.redis, [
      ["LLEN", toldQueue],
      ["HLEN", toldSending],
      ["HLEN", toldWaiting],
      ["HMGET", toldTry, "since", "due"],
    ])) as [number, number, number, (string | null)[]];
    const now = await this.time();
    const isOff = since != null && this.#isOff(Number(since), now);
    if (queued > 0 || waiting + setApart === 0 || (isOff && now < Number(due))) return;
    if (setApart === 0) {
      await this.commit(
        [
          ["EXISTS", toldSending, "0"],
          ["EXISTS", toldWaiting, "1"],
        ],
        [["RENAME", toldWaiting, toldSending]],
      );
    }
    await this.#makeMessage(now);
  }

  async #makeMessage(now: number): Promise<void> {
    const { toldQueue, toldSending } = this.keys;
    // Only what has made a message takes something out of it.
    const size = await this.redis.hlen(toldSending);
    const some = await this.redis.hrandfield(toldSending, MOST_AT_ONCE);
    const names = Array.isArray(some) ? some.map(String) : [];
    if (names.length === 0) return;
    const ids = [...new Set(names.map((name) => (name.startsWith(ENDED) ? name.slice(1) : name)))];
    const fields = ids.flatMap((id) => [id, `${ENDED}${id}`]);
    const texts = await this.redis.hmget(toldSending, ...fields);
    const told = texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Told)));
    const outcomes = ids.flatMap((id, n) => {
      const one = merged(told[2 * n], told[2 * n + 1]);
      return one === undefined ? [] : [[id, one] as const];
    });
    const message: OutcomeMessage = {
      id: `msg_${randomUUID()}`,
      at: now,
      outcomes: outcomes.toSorted(([, a], [, b]) => a.at - b.at),
    };
    await this.commit(
      [
        ["LLEN", toldQueue, "0"],
        ["HLEN", toldSending, String(size)],
      ],
      [
        ["RPUSH", toldQueue, JSON.stringify(message)],
        ["HDEL", toldSending, ...fields],
      ],
    );
  }

  /** What a message says to its receiver. */
  async open({ outcomes }: OutcomeMessage): Promise<ReturnType<typeof outgoing>[]> {
    return Promise.all(
      outcomes.map(async ([id, told]) => {
        const crmCode = crmCodeIn(id);
        // Without its key it is told all the same: the crmCode says enough.
        const text = await this.openAbout(id, told.about).catch(() => undefined);
        return outgoing(crmCode, told, text);
      }),
    );
  }

  /** @throws UnknownKey, DamagedValue */
  async openAbout(id: string, about: string | undefined): Promise<About | undefined> {
    return about === undefined
      ? undefined
      : (JSON.parse(await this.#sealing.open(about, sealedNameOf(id))) as About);
  }

  /**
   * After a try that has failed. A message that was refused for an hour window is left out; after a day of failures
   * all that waits is.
   * @returns how many outcomes were left out
   */
  async leaveOut(
    message: OutcomeMessage,
    isGivenUp: boolean,
  ): Promise<{ readonly isOff: boolean; readonly leftOut: number }> {
    const { toldQueue, toldSending, toldTry, toldWaiting } = this.keys;
    const [since, setApart, waiting] = await Promise.all([
      this.redis.hget(toldTry, "since"),
      this.redis.hlen(toldSending),
      this.redis.hlen(toldWaiting),
    ]);
    const now = await this.time();
    const isOff = since !== null && this.#isOff(Number(since), now);
    const leftOut =
      (isOff || isGivenUp ? message.outcomes.length : 0) + (isOff ? setApart + waiting : 0);
    if (leftOut === 0) return { isOff, leftOut };
    const off: Call[] = [
      ["DEL", toldQueue],
      ["DEL", toldSending],
      ["DEL", toldWaiting],
      ["HSET", toldTry, "due", now + Math.ceil(this.policy.hourMs)],
    ];
    await this.writes([...(isOff ? off : []), ...this.#leftOutCalls(leftOut)]);
    return { isOff, leftOut };
  }

  #isOff(since: number, now: number): boolean {
    return now - since >= toldOffAfterMs(this.policy.hourMs);
  }

  leftOut(): Reading<number> {
    return reading(["get", this.keys.toldLeftOut], Number);
  }

  waitingOutcomes(): Reading<number> {
    return reading(["hlen", this.keys.toldWaiting], Number);
  }
}
