/**
 * The last steps of each record that changed lately, for `crmsync why`. Scripts that run for a change
 * anyway append its step (lua/note-step.lua); what has no script is appended without being waited for.
 * A history never fails a change, and none is kept while Redis is nearly full. The first step of a relation
 * lies in the staged hash while its change waits (lua/hold-step.lua): a key costs more than its text.
 */
import type { Redis } from "ioredis";
import { redisScript, redisWrite, type RedisScript } from "../ops/redis-script.ts";
import type { EventStep, NewStep, RunStep, Step } from "../sync/step.ts";
import { eventTail, lineOf, originOf, readSteps } from "./history-steps.ts";
import type { Keys } from "./keys.ts";

const DAY_MS = 86_400_000;

/** Whose history: of a relation, or of a record of the CRM while no crmCode is known. */
export type HistoryName = { readonly crmCode: string } | { readonly subject: string };

export class History {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #keptMs: number;
  readonly #append: RedisScript<unknown>;
  readonly #read: RedisScript<string>;
  #isLeftOut = false;

  /** @param days for how long it is kept; 0: not at all. */
  constructor(redis: Redis, keys: Keys, days: number) {
    this.#redis = redis;
    this.#keys = keys;
    this.#keptMs = days * DAY_MS;
    this.#append = redisScript(redis, new URL("./lua/append-step.lua", import.meta.url));
    this.#read = redisScript(redis, new URL("./lua/read-history.lua", import.meta.url));
  }

  /** For how long a step is kept, ms; 0: no history is kept. */
  get keptMs(): number {
    return this.#keptMs;
  }

  /** For how long scripts keep steps, ms; "": they note none now. */
  get notedMs(): number | "" {
    return this.#isOff ? "" : this.#keptMs;
  }

  /** While Redis is nearly full, no steps are noted. */
  leaveOut(isLeftOut: boolean): void {
    this.#isLeftOut = isLeftOut;
  }

  /** Keys and arguments by which stage.lua notes an event. */
  ofEvent(
    crmCode: string,
    step: Pick<EventStep, "event" | "ignored" | "whens"> | undefined,
  ): ScriptNote {
    const { event } = step ?? {};
    const keys = [
      this.#keys.history("crmCode", crmCode),
      this.#keys.historyCodes(event?.subject ?? ""),
    ];
    if (step === undefined || event === undefined || this.#isOff)
      return { keys, args: ["", "", ""] };
    return { keys, args: [this.#keptMs, originOf(event), eventTail(event, step)] };
  }

  /** Keys and arguments by which settle.lua notes a run. */
  ofRun(crmCode: string, step: RunStep | undefined): ScriptNote {
    const keys = [this.#keys.history("crmCode", crmCode)];
    if (step === undefined || this.#isOff) return { keys, args: ["", "", ""] };
    const { extra, body } = lineOf(step);
    return { keys, args: [this.#keptMs, extra, body] };
  }

  /** Notes a step. Not waited for: the connection carries it before what the caller sends next. */
  note(name: HistoryName, step: NewStep): void {
    if (this.#isOff) return;
    const { origin, kind, extra, body } = lineOf(step);
    const args = [this.#keptMs, origin, kind, extra, body];
    void this.#append(this.#placesOf(name), args).catch(() => {});
  }

  /** Oldest first. */
  async read(name: HistoryName): Promise<Step[]> {
    const [key, staged] = this.#placesOf(name);
    if (staged === undefined) return readSteps((await this.#redis.get(key)) ?? "");
    return readSteps(await this.#read([key, staged], [this.#keptMs]));
  }

  /** crmCodes to which a record of the CRM led, newest first. */
  async codesOf(subject: string): Promise<string[]> {
    const text = (await this.#redis.get(this.#keys.historyCodes(subject))) ?? "";
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
    return (await this.#redis.exists(...this.#keysOfSubject(subject))) > 0;
  }

  /** @returns whether there was anything. */
  async eraseSubject(subject: string): Promise<boolean> {
    return (await this.#redis.del(...this.#keysOfSubject(subject))) > 0;
  }

  #keysOfSubject(subject: string): [string, string] {
    return [this.#keys.history("subject", subject), this.#keys.historyCodes(subject)];
  }

  /** Since when no step is missing, ms; undefined when no history is kept. */
  async since(now: number): Promise<number | undefined> {
    const text = await this.#redis.get(this.#keys.historySince);
    if (text === null || this.#keptMs === 0) return undefined;
    return Math.max(Number(text), now - this.#keptMs);
  }

  /** Called again and again by a process that works: begins, continues or ends what `since` says. */
  async keepSince(now: number): Promise<void> {
    const key = this.#keys.historySince;
    if (this.#keptMs === 0) await this.#redis.del(key);
    else {
      const write = redisWrite(this.#redis);
      await write("SET", key, Math.floor(now), ...(this.#isLeftOut ? [] : ["NX"]));
    }
  }

  get #isOff(): boolean {
    return this.#keptMs === 0 || this.#isLeftOut;
  }

  /** Its key; the first step of a relation may lie in the staged hash. */
  #placesOf(name: HistoryName): [key: string, ...staged: string[]] {
    if ("subject" in name) return [this.#keys.history("subject", name.subject)];
    const { crmCode } = name;
    return [this.#keys.history("crmCode", crmCode), this.#keys.staged(crmCode)];
  }
}

interface ScriptNote {
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}
