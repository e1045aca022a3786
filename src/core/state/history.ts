/**
 * The last steps of each record that changed lately, for `crmsync why`: a list of JSON for each record, newest first.
 * The write that changes a record adds its step; what changes no record adds its own without being waited for.
 * None is kept while Redis is nearly full.
 */
import type { Redis } from "ioredis";
import { cut } from "../service-spec/characters.ts";
import {
  EVENT_RESULTS,
  type EventStep,
  type NewStep,
  type NotedEvent,
  type NotedProblems,
  type RunStep,
  type Step,
} from "../sync/step.ts";
import { type Call, objectIn, Store } from "./store.ts";
import type { Keys } from "./keys.ts";

const DAY_MS = 86_400_000;

/** Most steps of a record, most crmCodes to which a record of the CRM led, and most names of fields in a step. */
const STEPS_MAX = 20;
const CODES_MAX = 3;
const NAMES_MAX = 4;

/** Longest texts of others that are kept, in UTF-16 units. */
const TEXT_MAX = 80;

/** As long as an event may have it: `crmsync forget` finds the record by it. */
const SUBJECT_MAX = 512;

const TYPES: ReadonlySet<string> = new Set([
  "created",
  "updated",
  "deleted",
  "restored",
  "merged",
] satisfies NotedEvent["type"][]);
const RESULTS: ReadonlySet<unknown> = new Set(EVENT_RESULTS);
const KINDS: ReadonlySet<unknown> = new Set([
  "event",
  "run",
  "dead",
  "act",
] satisfies Step["kind"][]);

/** Whose history: of a relation, or of a record of the CRM while no crmCode is known. */
export type HistoryName = { readonly crmCode: string } | { readonly subject: string };

export class History extends Store {
  /** For how long a step is kept, ms; 0: no history is kept. */
  readonly keptMs: number;
  #isLeftOut = false;

  /** @param days for how long it is kept; 0: not at all. */
  constructor(redis: Redis, keys: Keys, days: number) {
    super(redis, keys);
    this.keptMs = days * DAY_MS;
  }

  /** While Redis is nearly full, no steps are noted. */
  leaveOut(isLeftOut: boolean): void {
    this.#isLeftOut = isLeftOut;
  }

  /**
   * What notes a step in the write that it is about.
   * @param at by Redis' clock, ms
   * @param last the newest step as it is stored: one that repeats it takes its place
   * @param lastCode of an event's step: the crmCode to which its record led last (`lastCodeCalls`)
   */
  callsOf(
    name: HistoryName,
    step: NewStep,
    at: number,
    { last, lastCode }: Partial<Record<"last" | "lastCode", string | null | undefined>> = {},
  ): Call[] {
    if (this.#isOff) return [];
    const kept = shortened(step);
    const before = stepIn(last ?? "");
    const isRepeat = before !== undefined && contentOf(before) === contentOf(kept);
    const times = isRepeat ? before.times + 1 : 1;
    const key = this.#keyOf(name);
    const calls = [
      ...(isRepeat ? [["LREM", key, 1, last ?? ""] as const] : []),
      ...this.#pushCalls(key, JSON.stringify({ ...kept, at, times }), STEPS_MAX),
    ];
    if (step.kind !== "event") return calls;
    const object = ["SADD", this.keys.objects, objectOf(step)] as const;
    if (!("crmCode" in name)) return [...calls, object];
    const codes = this.keys.historyCodes(step.event.subject);
    // The step before has noted the same.
    if (lastCode === name.crmCode) return [...calls, ["PEXPIRE", codes, this.keptMs]];
    const isOnlyOnce = ["LREM", codes, 0, name.crmCode] as const;
    return [...calls, object, isOnlyOnce, ...this.#pushCalls(codes, name.crmCode, CODES_MAX)];
  }

  /** Reads the crmCode to which a record of the CRM led last. */
  lastCodeCalls(subject: string | undefined): Call[] {
    if (this.#isOff || subject === undefined) return [];
    return [["LINDEX", this.keys.historyCodes(subject), 0]];
  }

  #pushCalls(key: string, text: string, most: number): Call[] {
    return [
      ["LPUSH", key, text],
      ["LTRIM", key, 0, most - 1],
      ["PEXPIRE", key, this.keptMs],
    ];
  }

  /** Notes a step. Never fails, and need not be waited for. */
  async note(name: HistoryName, step: NewStep): Promise<void> {
    if (this.#isOff) return;
    try {
      await this.commit([], this.callsOf(name, step, await this.time()));
    } catch {
      // What the step is about does not depend on it.
    }
  }

  /** The newest step as it is stored; null: none is. */
  async last(name: HistoryName): Promise<string | null> {
    return this.#isOff ? null : this.redis.lindex(this.#keyOf(name), 0);
  }

  /** Oldest first. What a newer release wrote, and this one does not know, is left out. */
  async read(name: HistoryName): Promise<Step[]> {
    const texts = await this.redis.lrange(this.#keyOf(name), 0, -1);
    return texts.toReversed().flatMap((text) => stepIn(text) ?? []);
  }

  /** Where the steps of a relation are; undefined: no history is kept. */
  keyOf(crmCode: string): string | undefined {
    return this.keptMs === 0 ? undefined : this.#keyOf({ crmCode });
  }

  /** The event of a step, as it is stored. */
  eventIn(text: string): NotedEvent | undefined {
    const step = stepIn(text);
    return step?.kind === "event" ? step.event : undefined;
  }

  /** crmCodes to which a record of the CRM led, newest first. */
  codesOf(subject: string): Promise<string[]> {
    return this.redis.lrange(this.keys.historyCodes(subject), 0, -1);
  }

  /** Whether anything is kept under the name of a record in the CRM. */
  async hasSubject(subject: string): Promise<boolean> {
    return (await this.redis.exists(...this.#keysOfSubject(subject))) > 0;
  }

  /** @returns whether there was anything. */
  async eraseSubject(subject: string): Promise<boolean> {
    return (await this.redis.del(...this.#keysOfSubject(subject))) > 0;
  }

  #keysOfSubject(subject: string): [string, string] {
    return [this.keys.history("subject", subject), this.keys.historyCodes(subject)];
  }

  /** Since when no step is missing, ms; undefined when no history is kept. */
  async since(now: number): Promise<number | undefined> {
    const text = await this.redis.get(this.keys.historySince);
    if (text === null || this.keptMs === 0) return undefined;
    return Math.max(Number(text), now - this.keptMs);
  }

  /** Called again and again by a process that works: begins, continues or ends what `since` says. */
  async keepSince(now: number): Promise<void> {
    const key = this.keys.historySince;
    if (this.keptMs === 0) await this.redis.del(key);
    else await this.write("SET", key, Math.floor(now), ...(this.#isLeftOut ? [] : ["NX"]));
  }

  get #isOff(): boolean {
    return this.keptMs === 0 || this.#isLeftOut;
  }

  #keyOf(name: HistoryName): string {
    return "subject" in name
      ? this.keys.history("subject", name.subject)
      : this.keys.history("crmCode", name.crmCode);
  }
}

/** Of the CRM: the subject up to its slash. */
const objectOf = ({ event: { subject } }: EventStep): string =>
  subject.slice(0, Math.max(0, subject.indexOf("/")));

function stepIn(text: string): Step | undefined {
  const step = objectIn(text) as Step | undefined;
  const isKnown = KINDS.has(step?.kind) && (step?.kind !== "event" || RESULTS.has(step.result));
  return isKnown ? step : undefined;
}

/** What is the same in a step that repeats: not how long its request took. */
function contentOf(step: NewStep): string {
  const request = step.kind === "run" && step.request && { ...step.request, durationMs: 0 };
  return JSON.stringify({ ...step, request, at: undefined, times: undefined });
}

/** What is kept of a step, in one order, its kind first (known-records.lua): names only, and texts of others up to a length. */
function shortened(step: NewStep): NewStep {
  switch (step.kind) {
    case "event":
      return {
        kind: "event",
        event: shortEvent(step.event),
        result: step.result,
        coalesced: step.coalesced,
        ...(step.reused === true && { reused: true }),
        ignored: step.ignored,
        whens: step.whens,
        problems: shortProblems(step.problems),
      };
    case "run":
      return {
        kind: "run",
        request: shortRequest(step.request),
        outcome: step.outcome,
        reason: step.reason,
        problems: shortProblems(step.problems),
        ...(step.change && { change: step.change }),
      };
    case "dead":
      return { kind: "dead", problems: shortProblems(step.problems) };
    case "act": {
      const { act, approvedBy, by } = step;
      return {
        kind: "act",
        act,
        by: by && oneLine(by),
        approvedBy: approvedBy && oneLine(approvedBy),
      };
    }
  }
}

const shortEvent = ({ id, redriven, source, subject, time, type, warnings }: NotedEvent) => ({
  source: oneLine(source),
  id: oneLine(id),
  type: TYPES.has(type) ? type : "changed",
  subject: oneLine(subject, SUBJECT_MAX),
  time: Number.isNaN(time) ? undefined : time,
  warnings: warnings.slice(0, NAMES_MAX),
  redriven,
});

const shortRequest = (request: RunStep["request"]): RunStep["request"] =>
  request && {
    method: request.method,
    status: request.status,
    durationMs: Math.round(request.durationMs),
  };

function shortProblems(problems: NotedProblems): NotedProblems;
function shortProblems(problems: NotedProblems | undefined): NotedProblems | undefined;
function shortProblems(problems: NotedProblems | undefined): NotedProblems | undefined {
  if (problems === undefined) return undefined;
  const { fields, reason, rule } = problems;
  return { reason, fields: fields.slice(0, NAMES_MAX), rule: rule && oneLine(rule) };
}

/** Texts of others may hold anything. */
function oneLine(text: string, max = TEXT_MAX): string {
  const line = text.replace(/\p{Cc}/gu, " ");
  return line.length <= max ? line : `${cut(line, max - 1)}…`;
}
