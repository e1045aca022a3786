/** An event becomes the newest change of its record: the first half of the way through Redis. */
import { eventKey as keyOf, type ContentHash } from "../event/event-order.ts";
import type { Lane } from "../event/lane.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { NO_KEEPS, textOfKeeps } from "../sync/keeps.ts";
import {
  codeBefore,
  contentsAfter,
  isNews,
  seenAs,
  whereItLeads,
  type SeenAs,
} from "../sync/known-event.ts";
import {
  NO_FIRST_CHANGES,
  placeOf,
  sliceLastsMs,
  sliceOf,
  type FirstChanges,
} from "../sync/rank.ts";
import type { KnownRecord, LetterMark } from "../sync/record.ts";
import { stage, type StageInput, type StageResult, type StateToStage } from "../sync/stage.ts";
import { clearedBy } from "../sync/told.ts";
import { callsOfDouble } from "./double-relations.ts";
import { digestOf } from "./keys.ts";
import { OfRecords, unchanged, type ReadRecord, type RecordStore } from "./record-store.ts";
import { sealTexts } from "./staged-values.ts";
import type { StateAge } from "./state-age.ts";
import type { Call } from "./store.ts";

/** For how long the id of an event is remembered, s. */
const SEEN_S = 7 * 86_400;
const HOUR_MS = 3_600_000;

export interface StagedStatesOptions {
  /** Of the quota: the order of service scales with it. */
  readonly hourMs?: number;
  /** Counts what is settled; absent: nothing is. */
  readonly age?: StateAge;
}

/** `readFirst`: the crmCode of a record that is needed and was not given. */
type Staged = StageResult | { readonly readFirst: string };

export abstract class Staging extends OfRecords {
  protected readonly hourMs: number;
  /** The slice whose counter this process has told to expire. */
  #expiring = Number.NaN;

  constructor(records: RecordStore, { hourMs = HOUR_MS }: StagedStatesOptions) {
    super(records);
    this.hourMs = hourMs;
  }

  /** Stages a state, or settles it without a request. Deletes the record's older dead letter, and the event's. */
  async stage(state: StateToStage): Promise<StageResult> {
    const { source, subject } = state.noted?.event ?? {};
    const about =
      subject === undefined
        ? undefined
        : await this.records.told?.seal(deadLetterId(state.crmCode), {
            source,
            subject,
            owner: state.owner,
          });
    const texts = { ...(await sealTexts(state, this.sealing)), about };
    let other: ReadRecord | undefined;
    for (;;) {
      const staged = await this.#stage(state, texts, other);
      if (!("readFirst" in staged)) return staged;
      other = await this.records.read(staged.readFirst);
    }
  }

  /**
   * @param other the record of the crmCode to which the record of the CRM led before, if it is another one.
   * @returns `readFirst`: its crmCode, where it is needed and not given.
   */
  async #stage(
    state: StateToStage,
    texts: Pick<StageInput, "about" | "event" | "payload">,
    other: ReadRecord | undefined,
  ): Promise<Staged> {
    const { deadMarks, firstChanges, line, lost, stagedCount, subjects, ...keys } = this.keys;
    const { content, crmCode, eventKey, lane, noted, payload } = state;
    const subject = digestOf(noted?.event.subject ?? "");
    const seen = keys.seen(digestOf(eventKey));
    const ofEvent = `e:${eventKey}`;
    const more: Call[] = [
      ["GET", seen],
      ["HGET", deadMarks, ofEvent],
      ["ZRANGE", line("live"), 0, 0, "WITHSCORES"],
      ["GET", firstChanges],
      ["HGET", subjects, subject],
      ["HEXISTS", lost, crmCode],
      ...this.records.history.lastCodeCalls(noted?.event.subject),
    ];
    let counted: number | undefined;
    const staged = await this.records.change<Staged>(crmCode, more, (read) => {
      const [contents, mark, lowest, first, led, wasLost, lastCode = null] = read.more as [
        string | null,
        string | null,
        string[],
        string | null,
        string | null,
        number,
        (string | null)?,
      ];
      counted = undefined;
      const before = eventKey === "" ? undefined : seenAs(contents, content);
      if (before === "same" && !isNews(state, contents, read))
        return unchanged({ result: "duplicate", coalesced: false });
      const leads = payload !== undefined && noted !== undefined;
      const code = codeBefore(state, led);
      if (leads && code !== crmCode && code !== other?.crmCode)
        return unchanged({ readFirst: code });
      const reused = before === "changed" && { reused: true };
      const order = this.#orderOf(read, lane, Number(lowest[1] ?? read.now), first);
      const made = stage(read, { ...state, ...texts, ...order.input }, read);
      const { record, differs, ...outcome } = made;
      const { result } = made;
      const isStaged = result === "staged" || result === "held";
      if (isStaged && lane === "live") counted = order.slice;
      // A record that stays erased gets no history.
      const isNoted = result !== "superseded" || read.erasedText === "";
      const step = { kind: "event", ...outcome, ...reused, problems: undefined } as const;
      const to = leads ? whereItLeads(state, led, other) : { leads: false };
      const calls: readonly (false | readonly Call[])[] = [
        eventKey !== "" && [["SET", seen, contentsAfter(state, contents), "EX", SEEN_S]],
        isStaged && eventKey === "" && [["INCR", stagedCount]],
        isStaged && lane === "live" && order.calls,
        wasLost === 1 && result !== "superseded" && [["HDEL", lost, crmCode]],
        result !== "superseded" && [
          ...this.#letterOfEvent(ofEvent, mark, read.now),
          ...(to.leads ? [["HSET", subjects, subject, crmCode] as const] : []),
          ...("double" in to && to.double ? callsOfDouble(this.keys, to.double, read.now) : []),
        ],
        this.#keepsCalls(state),
        isNoted &&
          noted !== undefined &&
          this.records.history.callsOf({ crmCode }, { ...step, result, ...noted }, read.now, {
            lastCode,
          }),
        this.wakeCalls(record),
      ];
      return {
        record,
        outcome: { ...outcome, ...reused, ...(differs === true && { differs }) },
        checks: [
          ["HGET", deadMarks, ofEvent, mark ?? ""],
          ...(leads ? [["HGET", subjects, subject, led ?? ""] as const] : []),
        ],
        calls: calls.flatMap((some) => some || []),
      };
    });
    this.#expiring = counted ?? this.#expiring;
    return staged;
  }

  /** Where a live record stands in the order of service, and what its change teaches. */
  #orderOf({ now, row }: ReadRecord, lane: Lane, lowestRank: number, counted: string | null) {
    const hourMs = this.hourMs;
    const before = counted === null ? NO_FIRST_CHANGES : (JSON.parse(counted) as FirstChanges);
    const { first, pace, rank } = placeOf(row?.pace, before, { now, lowestRank }, hourMs);
    const slice = sliceOf(now, hourMs);
    const key = this.keys.flow(slice);
    const calls: Call[] = [["INCR", key]];
    if (slice !== this.#expiring) calls.push(["PEXPIRE", key, sliceLastsMs(hourMs)]);
    if (first !== before)
      calls.push(["SET", this.keys.firstChanges, JSON.stringify(first), "PX", 2 * hourMs]);
    return { input: { rank, pace: lane === "live" ? pace : undefined }, calls, slice };
  }

  #letterOfEvent(id: string, text: string | null, now: number): Call[] {
    if (text === null) return [];
    const mark = JSON.parse(text) as LetterMark;
    const told = this.records.told?.callsOf(id, clearedBy(mark, now)) ?? [];
    return [...this.records.dropLetterCalls(id, mark), ...told];
  }

  /** The worker that takes the state needs the kept fields, also after Redis has lost everything. */
  #keepsCalls({ keeps = NO_KEEPS }: StateToStage): Call[] {
    const text = textOfKeeps(keeps);
    return text === textOfKeeps(NO_KEEPS) ? [] : [["SET", this.keys.keptFields, text, "NX"]];
  }

  /** Wakes the loops that wait for work. */
  protected wakeCalls({ staged }: KnownRecord): Call[] {
    const isDue = staged !== undefined && staged.held === undefined;
    return isDue ? [["PUBLISH", this.keys.jobsAdded, staged.lane]] : [];
  }

  /** The crmCode to which a record of the CRM led; undefined where nothing but its own id is known. */
  async codeOf(subject: string): Promise<string | undefined> {
    return (await this.redis.hget(this.keys.subjects, digestOf(subject))) ?? undefined;
  }

  /** Which of these events were seen within the last seven days, with the same content. */
  async seen<Event extends { readonly source: string; readonly id: string }>(
    events: readonly Event[],
    contentOf: ContentHash,
  ): Promise<ReadonlySet<Event>> {
    const seen = await Promise.all(events.map((one) => this.seenAs(keyOf(one), contentOf(one))));
    return new Set(events.filter((_, index) => seen[index] === "same"));
  }

  /** Whether an event of this key was seen within the last seven days, and with this content. */
  async seenAs(eventKey: string, content: string): Promise<SeenAs> {
    return seenAs(await this.redis.get(this.keys.seen(digestOf(eventKey))), content);
  }

  /** Lets an event be accepted once more, so that its dead letter can be redriven. */
  async forgetEvent(eventKey: string): Promise<void> {
    await this.redis.del(this.keys.seen(digestOf(eventKey)));
  }
}
