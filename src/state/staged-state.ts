/**
 * The newest state of each record: staged by an event, taken by a worker, settled by the service's reply. Each of
 * these steps is one write, so a crash between two steps leaves nothing half done.
 */
import { eventKey as keyOf, type ContentHash } from "../event/event-order.ts";
import { NO_KEEPS, textOfKeeps } from "../sync/keeps.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import {
  NO_FIRST_CHANGES,
  placeOf,
  type FirstChanges,
  sliceLastsMs,
  sliceOf,
} from "../sync/rank.ts";
import {
  newestOrders,
  type KnownRecord,
  type LetterMark,
  type SeenAs,
  type Settlement,
  type SettleResult,
  type Staged,
  type StageResult,
  type StateToStage,
  type Take,
  type TakenState,
} from "../sync/record.ts";
import { settle, take, type SettleInput, type TakeResult } from "../sync/run.ts";
import { stage, type StageInput } from "../sync/stage.ts";
import type { RunStep } from "../sync/step.ts";
import { clearedBy } from "../sync/told.ts";
import { readAll, type Call } from "./store.ts";
import { digestOf } from "./keys.ts";
import { callsOfDouble } from "./double-relations.ts";
import { keepsIn } from "./kept-fields.ts";
import {
  OfRecords,
  unchanged,
  type ReadRecord,
  type RecordStore,
  type WrittenRecord,
} from "./record-store.ts";
import { scanSorted } from "./scan.ts";
import type { StateAge } from "./state-age.ts";
import { openEvents, openState, sealTexts } from "./staged-values.ts";
import { NOT_OPENED } from "./line.ts";
import { UnknownKey } from "./sealing.ts";

/** For how long the id of an event is remembered, s. */
const SEEN_S = 7 * 86_400;

/** Of events with one id, the contents of so many are remembered. */
const MOST_CONTENTS = 16;

/** Stands for the content of a state that no event brought. */
const NO_CONTENT = "-";

/**
 * Whether an event came before: `same` with this content, `changed` with another one.
 * @param contents hashes that are remembered of its key
 */
function seenAs(contents: string | null, content: string): SeenAs {
  if (contents === null) return undefined;
  return contentsIn(contents).has(content) ? "same" : "changed";
}

/** What is remembered of an event: hashes of its contents, those of reads with the number of their arrival. */
const contentsIn = (contents: string | null): Map<string, string> =>
  new Map(
    (contents ?? "").split(" ").map((one) => {
      const [content = "", arrival = ""] = one.split(":");
      return [content, arrival] as const;
    }),
  );

const arrivalIn = (order: string): string => order.slice(order.lastIndexOf("\t") + 1);

/** Records read in one round trip. */
const PAGE = 200;

const HOUR_MS = 3_600_000;

export interface StagedStatesOptions {
  /** Of the quota: the order of service scales with it. */
  readonly hourMs?: number;
  /** Counts what is settled; absent: nothing is. */
  readonly age?: StateAge;
}

export class StagedStates extends OfRecords {
  readonly #hourMs: number;
  readonly #age: StateAge | undefined;
  readonly #next = this.script<string | null>("next");
  /** The record as a worker of this process has taken it: it is settled without being read again. */
  readonly #taken = new WeakMap<TakenState, WrittenRecord>();

  constructor(records: RecordStore, { age, hourMs = HOUR_MS }: StagedStatesOptions = {}) {
    super(records);
    this.#hourMs = hourMs;
    this.#age = age;
  }

  /** Stages a state, or settles it without a request. Deletes the record's older dead letter, and the event's. */
  async stage(state: StateToStage): Promise<StageResult> {
    const texts = {
      ...(await sealTexts(state, this.sealing)),
      about: await this.#aboutOf(state),
    };
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
    texts: Awaited<ReturnType<typeof sealTexts>> & Pick<StageInput, "about">,
    other: ReadRecord | undefined,
  ): Promise<StageResult | { readonly readFirst: string }> {
    const keys = this.keys;
    const { content = NO_CONTENT, crmCode, eventKey, isRead, lane, noted, payload } = state;
    const told = isRead === true ? `${content}:${arrivalIn(state.order)}` : content;
    const subject = digestOf(noted?.event.subject ?? "");
    const seen = keys.seen(digestOf(eventKey));
    const ofEvent = `e:${eventKey}`;
    const more: Call[] = [
      ["GET", seen],
      ["HGET", keys.deadMarks, ofEvent],
      ["ZRANGE", keys.line("live"), 0, 0, "WITHSCORES"],
      ["GET", keys.firstChanges],
      ["HGET", keys.subjects, subject],
    ];
    return this.records.change<StageResult | { readFirst: string }>(crmCode, more, (read) => {
      const [contents, eventMark, lowest, first, led] = read.more as [
        string | null,
        string | null,
        string[],
        string | null,
        string | null,
      ];
      const seenBefore = eventKey === "" ? undefined : seenAs(contents, content);
      const newest = newestOrders(read)[payload === undefined ? "status" : "fields"];
      // Read, changed, and read again as it was within one second: the times are equal, and so are the events.
      const isNews =
        isRead === true && arrivalIn(newest) > (contentsIn(contents).get(content) ?? "");
      if (seenBefore === "same" && !isNews) {
        return unchanged({ result: "duplicate", coalesced: false });
      }
      const leads = payload !== undefined && noted !== undefined;
      const before = led ?? ownIdOf(state);
      if (leads && before !== crmCode && before !== other?.crmCode)
        return unchanged({ readFirst: before });
      const reused = seenBefore === "changed" && { reused: true };
      const others = contents?.split(" ").filter((one) => !one.startsWith(`${content}:`)) ?? [];
      const known = others.slice(1 - MOST_CONTENTS);
      const order = this.#orderOf(read, lane, Number(lowest[1] ?? read.now), first);
      const made = stage(read, { ...state, ...texts, ...order.input }, read);
      const { record, differs, ...outcome } = made;
      const isStaged = outcome.result === "staged" || outcome.result === "held";
      const { result } = outcome;
      // A record that stays erased gets no history.
      const isNoted = result !== "duplicate" && (result !== "superseded" || read.erasedText === "");
      const step = { kind: "event", ...outcome, ...reused, problems: undefined } as const;
      return {
        record,
        outcome: { ...outcome, ...reused, ...(differs === true && { differs }) },
        checks: [
          ["HGET", keys.deadMarks, ofEvent, eventMark ?? ""],
          ...(leads ? [["HGET", keys.subjects, subject, led ?? ""] as const] : []),
        ],
        calls: [
          ...(eventKey === ""
            ? []
            : [["SET", seen, [...known, told].join(" "), "EX", SEEN_S] as const]),
          ...(isStaged && lane === "live" ? order.calls : []),
          ...(isStaged ? [["INCR", keys.stagedCount] as const] : []),
          ...(result === "superseded"
            ? []
            : [
                ...this.#letterOfEvent(ofEvent, eventMark, read.now),
                ...(leads ? this.#subjectCalls(state, read.now, led, other) : []),
              ]),
          ...this.#keepsCalls(state),
          ...(isNoted && noted
            ? this.records.history.callsOf({ crmCode }, { ...step, result, ...noted }, read.now)
            : []),
          ...this.#wakeCalls(record),
        ],
      };
    });
  }

  /** Where a live record stands in the order of service, and what its change teaches. */
  #orderOf({ now, row }: ReadRecord, lane: Lane, lowestRank: number, counted: string | null) {
    const hourMs = this.#hourMs;
    const before = counted === null ? NO_FIRST_CHANGES : (JSON.parse(counted) as FirstChanges);
    const { first, pace, rank } = placeOf(row?.pace, before, { now, lowestRank }, hourMs);
    const slice = this.keys.flow(sliceOf(now, hourMs));
    const lastsMs = sliceLastsMs(hourMs);
    const calls: Call[] = [
      ["INCR", slice],
      ["PEXPIRE", slice, lastsMs],
    ];
    if (first !== before)
      calls.push(["SET", this.keys.firstChanges, JSON.stringify(first), "PX", 2 * hourMs]);
    return { input: { rank, pace: lane === "live" ? pace : undefined }, calls };
  }

  #letterOfEvent(id: string, text: string | null, now: number): Call[] {
    if (text === null) return [];
    const mark = JSON.parse(text) as LetterMark;
    const told = this.records.told?.callsOf(id, clearedBy(mark, now)) ?? [];
    return [...this.records.dropLetterCalls(id, mark), ...told];
  }

  /** Names the record to those who are told of its outcome. */
  async #aboutOf({ crmCode, noted, owner }: StateToStage): Promise<string | undefined> {
    if (noted === undefined) return undefined;
    const { source, subject } = noted.event;
    return this.records.told?.seal(deadLetterId(crmCode), { source, subject, owner });
  }

  /** The worker that takes the state needs the kept fields, also after Redis has lost everything. */
  #keepsCalls({ keeps = NO_KEEPS }: StateToStage): Call[] {
    const text = textOfKeeps(keeps);
    return text === textOfKeeps(NO_KEEPS) ? [] : [["SET", this.keys.keptFields, text, "NX"]];
  }

  /**
   * To which crmCode a record of the CRM led, where its own id does not say it: its deletion may come without it.
   * An event that is late says where it led before.
   */
  #subjectCalls(
    state: StateToStage,
    now: number,
    led: string | null,
    other: ReadRecord | undefined,
  ): Call[] {
    const { crmCode, fieldsOrder, noted, order, writer } = state;
    const before = led ?? ownIdOf(state);
    if (before === crmCode) return [];
    const wrote = [other?.row?.writer, other?.staged?.fields?.writer].includes(writer);
    const isOf = wrote && writer !== undefined && other !== undefined;
    if (isOf && newestOrders(other).fields > (fieldsOrder ?? order))
      return callsOfDouble(this.keys, [crmCode, before], now);
    return [
      ["HSET", this.keys.subjects, digestOf(noted?.event.subject ?? ""), crmCode],
      ...(led === null && !isOf ? [] : callsOfDouble(this.keys, [before, crmCode], now)),
    ];
  }

  /** Wakes the loops that wait for work. */
  #wakeCalls({ staged }: KnownRecord): Call[] {
    return staged?.phase === "waits" ? [["PUBLISH", this.keys.jobsAdded, staged.lane]] : [];
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
    const seen = await Promise.all(
      events.map((event) => this.seenAs(keyOf(event), contentOf(event))),
    );
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

  /** What waits of each of these records, or is to be verified, in the order given; texts are sealed. */
  async waiting(crmCodes: readonly string[]): Promise<(Staged | undefined)[]> {
    const found: (Staged | undefined)[] = [];
    for (let from = 0; from < crmCodes.length; from += PAGE) {
      const page = crmCodes.slice(from, from + PAGE);
      const reads = page.map((crmCode) => ["HGET", this.keys.staged(crmCode), "state"] as const);
      const texts = (await readAll(this.redis, reads)) as (string | null)[];
      found.push(
        ...texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Staged))),
      );
    }
    return found;
  }

  /** The serialised events of each record's state, in the order given; none where there is none. */
  async events(crmCodes: readonly string[]): Promise<string[][]> {
    const states = await this.waiting(crmCodes);
    return Promise.all(
      states.map(async (staged, index) => {
        if (staged === undefined) return [];
        const { event, newestEvent } = await openEvents(
          staged,
          crmCodes[index] ?? "",
          this.sealing,
        );
        return [...new Set([event, newestEvent])];
      }),
    );
  }

  /** The records among these that have a change which is not on the service, and waits for no person. */
  async unsynced(crmCodes: readonly string[]): Promise<string[]> {
    if (crmCodes.length === 0) return [];
    const scores = await Promise.all(
      LANES.map((lane) => this.redis.zmscore(this.keys.unsynced(lane), ...crmCodes)),
    );
    return crmCodes.filter((_, index) => scores.some((lane) => (lane[index] ?? null) !== null));
  }

  /**
   * The first record that is due, which no other worker gets meanwhile.
   * @param lane `live`: only a live one. @param holdMs after this it is due again, if this process dies
   */
  async next(lane: Lane, holdMs: number): Promise<string | undefined> {
    const { bulkPause, line } = this.keys;
    return (await this.#next([line("live"), line("bulk"), bulkPause], [holdMs, lane])) ?? undefined;
  }

  /** @param holdMs for how long no other worker may take the record if this process dies now. */
  async take(crmCode: string, token: string, holdMs: number): Promise<Take> {
    const { keptFields, line } = this.keys;
    const reading: Call[] = [["GET", keptFields]];
    const { outcome: taken, written } = await this.records.changeKnown<TakenRecord>(
      crmCode,
      reading,
      (read) => {
        const result = take(read, token, holdMs, read);
        const lines = LANES.map(line);
        switch (result.kind) {
          case "taken":
            return { record: result.record, outcome: { ...result, read } };
          case "busy":
            return {
              record: undefined,
              outcome: result,
              calls: lines.map((key) => ["ZADD", key, "XX", result.until, crmCode]),
            };
          case "nothing":
            return unchanged({ kind: "nothing" });
        }
      },
    );
    if (taken.kind === "nothing") return this.#leave(crmCode);
    if (taken.kind !== "taken") return taken;
    const { read, row, staged } = taken;
    try {
      const keeps = keepsIn((read.more[0] as string | null) ?? "");
      const open = await openState(staged, crmCode, this.sealing, read.now);
      const { without } = staged.fields ?? row;
      const state = { crmCode, token, row, keeps, orders: newestOrders(read), without, ...open };
      this.#taken.set(state, written);
      return { kind: "taken", state };
    } catch (error) {
      // This process cannot open the state. Another one may have the key.
      const why = error instanceof UnknownKey ? `sealed with the key ${error.keyId}` : "damaged";
      await this.#giveBack(crmCode, token, {
        row: "before",
        finished: false,
        failure: `${NOT_OPENED}: ${why}`,
        retryAt: read.now + KEY_WAIT_MS,
        ...(staged.doubt && { doubt: staged.doubt }),
        found: undefined,
        keptValues: undefined,
        sent: NOTHING_SENT,
      });
      throw error;
    }
  }

  /** Nothing of this record is to be sent: it leaves the lines. `lost`: nobody has settled what waited. */
  #leave(crmCode: string): Promise<Take> {
    const { line, unsynced } = this.keys;
    const waits = LANES.map((lane) => ["ZSCORE", unsynced(lane), crmCode] as const);
    return this.records.change<Take>(crmCode, waits, (read) => {
      if (read.staged?.phase === "waits") return unchanged({ kind: "nothing" });
      const isLost = read.staged === undefined && read.more.some((score) => score !== null);
      return {
        record: undefined,
        outcome: { kind: isLost ? "lost" : "nothing" },
        checks: this.records.checksOf(read),
        calls: LANES.flatMap((lane) => [line(lane), unsynced(lane)]).map((key) => [
          "ZREM",
          key,
          crmCode,
        ]),
      };
    });
  }

  /** Gives a taken state back. @param step what the record's history is to say of this run. */
  async settle(taken: TakenState, how: Settlement, step?: RunStep): Promise<SettleResult> {
    const { crmCode, token } = taken;
    const seal = async (text: string | undefined) =>
      text && (await this.sealing.seal(text, crmCode));
    const input = {
      ...how,
      found: await seal(how.payload),
      keptValues: await seal(how.kept),
      sent: taken,
    };
    return this.#giveBack(crmCode, token, input, step, this.#taken.get(taken));
  }

  async #giveBack(
    crmCode: string,
    token: string,
    how: SettleInput,
    step?: RunStep,
    known?: WrittenRecord,
  ): Promise<SettleResult> {
    const { history } = this.records;
    // Hundreds of tries that end alike are one step.
    const last = step === undefined || how.finished ? undefined : await history.last({ crmCode });
    const { outcome } = await this.records.changeKnown<SettleResult>(
      crmCode,
      [],
      (read) => {
        const settled = settle(read, token, how, read);
        const { result } = settled;
        const notes = step === undefined ? [] : history.callsOf({ crmCode }, step, read.now, last);
        if (result === "lost") return { record: undefined, outcome: result, calls: notes };
        const { record, told } = this.#told(settled.record, read, step?.outcome);
        const { row, staged } = record;
        // A relation that is known not to be terminated does not count for the guard, whatever was tried.
        const isActive =
          row !== undefined && !row.uncertain && !row.terminated && staged?.late !== true;
        const age = this.#age === undefined ? [] : [this.#age.settleCall()];
        const counts: Call[] = isActive ? [["ZREM", this.keys.terminations, crmCode]] : [];
        return {
          record,
          outcome: result,
          calls: [...notes, ...counts, ...told, ...age, ...this.#wakeCalls(record)],
        };
      },
      known,
    );
    if (outcome !== "lost") this.#age?.settled();
    return outcome;
  }

  /** What is told of a write that the service has taken; the row keeps since when the relation is there. */
  #told(
    record: KnownRecord,
    { crmCode, now, staged }: ReadRecord,
    outcome: RunStep["outcome"],
  ): { readonly record: KnownRecord; readonly told: readonly Call[] } {
    const { told } = this.records;
    const { row } = record;
    const isWritten = outcome === "created" || outcome === "updated";
    if (told?.isOn !== true || row === undefined || !isWritten) return { record, told: [] };
    const since = outcome === "created" ? now : row.since;
    const isEnded = outcome === "updated" && row.terminated;
    const about = staged?.about;
    const one = { outcome: isEnded ? "terminated" : outcome, at: now, about, since } as const;
    return {
      record: { ...record, row: { ...row, since } },
      told: told.callsOf(deadLetterId(crmCode), one),
    };
  }

  /** All that wait for a retry become due now, as when an outage ends. */
  async retryAll(now: number): Promise<void> {
    for (const lane of LANES) {
      const line = this.keys.line(lane);
      for await (const page of scanSorted(this.redis, line, PAGE)) {
        const later = page.filter(([, due]) => Number(due) > now).map(([crmCode]) => crmCode);
        const states = await this.waiting(later);
        const free = later.filter((_, index) => (states[index]?.heldUntil ?? 0) <= now);
        if (free.length > 0)
          await this.redis.zadd(line, "XX", ...free.flatMap((crmCode) => [now, crmCode]));
      }
      await this.redis.publish(this.keys.jobsAdded, lane);
    }
  }
}

/** The record's own id in the CRM, which is its crmCode in most mappings. */
const ownIdOf = ({ noted }: Pick<StateToStage, "noted">): string => {
  const subject = noted?.event.subject ?? "";
  return subject.slice(subject.indexOf("/") + 1);
};

type TakenRecord =
  | (Extract<TakeResult, { kind: "taken" }> & { readonly read: ReadRecord })
  | Exclude<Take, { kind: "taken" }>;

/** How long a state that this process cannot open waits before the next try, ms. */
const KEY_WAIT_MS = 10_000;

/** A state that could not be opened proves nothing. */
const NOTHING_SENT: SettleInput["sent"] = {
  status: "mapped",
  payload: undefined,
  eventOrder: "",
  orders: { fields: "", status: "", is: "mapped" },
};
