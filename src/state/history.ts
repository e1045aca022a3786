/**
 * The last steps of each record that changed lately, for `crmsync why`. The write that changes a record
 * appends its step (lua/commit.lua); what changes no record is appended without being waited for.
 * A history never fails a change, and none is kept while Redis is nearly full.
 */
import type { Redis } from "ioredis";
import type { EventStep, NewStep, Step } from "../sync/step.ts";
import { type Call, Store } from "./store.ts";
import { lineOf, readSteps } from "./history-steps.ts";
import type { Keys } from "./keys.ts";

const DAY_MS = 86_400_000;

/** Of the CRM: the subject up to its slash. */
const objectOf = ({ event: { subject } }: EventStep): string =>
  subject.slice(0, Math.max(0, subject.indexOf("/")));

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

  /** What notes a step in the write that it is about. */
  callsOf(name: HistoryName, step: NewStep): Call[] {
    if (this.#isOff) return [];
    const { body, extra, kind, origin } = lineOf(step);
    const calls: Call[] = [["NOTE", this.#keyOf(name), this.keptMs, origin, kind, extra, body]];
    if (step.kind !== "event") return calls;
    calls.push(["SADD", this.keys.objects, objectOf(step)]);
    const codes = this.keys.historyCodes(step.event.subject);
    if ("crmCode" in name) calls.push(["CODE", codes, this.keptMs, name.crmCode, origin]);
    return calls;
  }

  /** Notes a step. Not waited for: the connection carries it before what the caller sends next. */
  note(name: HistoryName, step: NewStep): void {
    const calls = this.callsOf(name, step);
    if (calls.length > 0) void this.commit([], calls).catch(() => {});
  }

  /** Oldest first. */
  async read(name: HistoryName): Promise<Step[]> {
    return readSteps((await this.redis.get(this.#keyOf(name))) ?? "");
  }

  /** crmCodes to which a record of the CRM led, newest first. */
  async codesOf(subject: string): Promise<string[]> {
    const text = (await this.redis.get(this.keys.historyCodes(subject))) ?? "";
    const told = text.split("\n").filter((code) => code !== "");
    const recordId = subject.slice(subject.indexOf("/") + 1);
    const isOwnId = !told.includes(recordId) && (await this.#isOf(recordId, subject));
    return isOwnId ? [...told, recordId] : told;
  }

  /** Whether the history of a relation has events of this record. */
  async #isOf(crmCode: string, subject: string): Promise<boolean> {
    const steps = await this.read({ crmCode });
    return steps.some((step) => step.kind === "event" && step.event.subject === subject);
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
