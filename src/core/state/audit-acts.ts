/**
 * What the audit trails of all processes share: acts that wait for their lines, and the newest line of
 * each chain, by which a cut-off end is noticed. A command needs no access to the trail itself.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { hashReading, readOne, reading, type Reading } from "../../base/redis-reading.ts";
import { type Call, Store } from "./store.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";

/** What people and processes do; changes at the service have lines of their own. */
export type ActName =
  | "approval.approve"
  | "approval.ask"
  | "approval.expire"
  | "approval.reject"
  | "bulk.cancel"
  | "bulk.pause"
  | "bulk.resume"
  | "certify"
  | "console.export"
  | "console.login"
  | "dead.drop"
  | "dead.redrive"
  | "dead.show"
  | "event.show"
  | "forget"
  | "held.drop"
  | "held.release"
  | "interruption.begin"
  | "interruption.end"
  | "ledger.forget"
  | "lists.refresh"
  | "outcome.told"
  | "process.start"
  | "push"
  | "reconcile.apply"
  | "reconcile.compare"
  | "reconcile.forget"
  | "reconcile.show"
  | "redis.backup"
  | "redis.reset"
  | "redis.restore"
  | "relation.show"
  | "secret.replaced"
  | "shadow.show";

export interface Act {
  readonly act: ActName;
  /** `<user>@<host>`, `operator via console` or `<host>:<pid>`. */
  readonly by: string;
  readonly crmCode?: string | undefined;
  readonly event?: { readonly id: unknown; readonly source: unknown } | undefined;
  /** More that the line says; no values of a person. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** Who does something; `details`: who has approved it. */
export type ActBy = Pick<Act, "by" | "details">;

export interface WaitingAct {
  /** As it is stored. */
  readonly text: string;
  /** What its line says. */
  readonly line: Readonly<Record<string, unknown>>;
}

export interface StoredHead {
  readonly seq: number;
  readonly hash: string;
  /** The file and its host, or the process whose stdout it is. */
  readonly where: string;
  /** When the line was written, ms. */
  readonly at: number;
  /** When a process found the file gone, or shorter than it was, ms; the newest time, until its lines are found. */
  readonly lostAt?: number | undefined;
}

/** After this long without a sign of its process, another one may write the acts, ms. */
const LEASE_MS = 10_000;

/** Heads of chains that were not continued for this long are forgotten, ms. */
export const KEEP_HEADS_MS = 90 * 86_400_000;

/** The most characters of a caller's text in one line, so that a caller cannot fill the disk of the trail. */
const MOST_TEXT = 1000;

export class AuditActs extends Store {
  readonly #isConfigured: boolean;
  readonly #history: History;
  /** Of the process that writes the acts. */
  readonly lease = this.leaseFor(this.keys.auditOwner, LEASE_MS);

  /** @param isConfigured whether AUDIT_LOG is set here; if not, acts are kept if any process has had it. */
  constructor(redis: Redis, keys: Keys, isConfigured: boolean, history: History) {
    super(redis, keys);
    this.#history = history;
    this.#isConfigured = isConfigured;
  }

  /** Call it before the act is done: no act is then without its line. */
  async record(act: Act): Promise<void> {
    await this.note(act);
    const calls = await this.callsOf(act);
    if (calls.length > 0) await this.writes(calls);
  }

  /** What keeps an act for its line in the write that does it; nothing if no process has ever had an audit trail. */
  async callsOf({ act, by, crmCode, event, details }: Act): Promise<Call[]> {
    const { auditActs, auditHeads } = this.keys;
    if (!this.#isConfigured && (await this.redis.exists(auditHeads)) === 0) return [];
    // After a crash an act may be written twice: both lines have this id.
    const texts = cutTexts({ ...details, ...(event && { event: cutTexts({ ...event }) }) });
    const line = JSON.stringify({ act, id: randomUUID(), crmCode, ...texts, by });
    return [["RPUSH", auditActs, `${await this.time()} ${line}`]];
  }

  /** Adds an act to the history of its record. */
  async note({ act, by, crmCode, details }: Act): Promise<void> {
    // What is forgotten keeps no history.
    if (crmCode === undefined || act === "forget") return;
    const approvedBy = details?.["approvedBy"];
    const second = typeof approvedBy === "string" ? { approvedBy: nameIn(approvedBy) } : {};
    await this.#history.note({ crmCode }, { kind: "act", act, by: nameIn(by), ...second });
  }

  /** The oldest act without a line. */
  async next(): Promise<WaitingAct | undefined> {
    const text = await this.redis.lindex(this.keys.auditActs, 0);
    return text === null ? undefined : { text, line: lineOf(text) };
  }

  /** The act has its line. */
  async written({ text }: WaitingAct): Promise<void> {
    await this.redis.lrem(this.keys.auditActs, 1, text);
  }

  /** Since when the oldest act waits for its line, ms. */
  waitingSince(): Reading<number | undefined> {
    return reading(["lindex", this.keys.auditActs, 0], (text: string | null) =>
      text === null ? undefined : Number.parseInt(text),
    );
  }

  async noteHead(chain: string, head: StoredHead): Promise<void> {
    const { auditHeads } = this.keys;
    for (;;) {
      const known = await this.redis.hget(auditHeads, chain);
      const before = known === null ? undefined : (JSON.parse(known) as StoredHead);
      if (before !== undefined && before.seq > head.seq) return;
      const next = { ...head, lostAt: head.lostAt ?? before?.lostAt };
      if (await this.swap(auditHeads, chain, known, JSON.stringify(next))) return;
    }
  }

  /** All lines of the chain are proven to be there. */
  async foundLines(chain: string): Promise<void> {
    const { auditHeads } = this.keys;
    const known = await this.redis.hget(auditHeads, chain);
    if (known === null) return;
    const { lostAt, ...head } = JSON.parse(known) as StoredHead;
    if (lostAt === undefined) return;
    await this.swap(auditHeads, chain, known, JSON.stringify(head));
  }

  /** Chain → its newest line. */
  headsReading(): Reading<Readonly<Record<string, StoredHead>>> {
    return hashReading(this.keys.auditHeads, (text) => JSON.parse(text) as StoredHead);
  }

  async heads(): Promise<ReadonlyMap<string, StoredHead>> {
    return new Map(Object.entries(await readOne(this.redis, this.headsReading())));
  }

  async forgetOldHeads(now: number): Promise<void> {
    for (const [chain, { at }] of await this.heads()) {
      if (now - at > KEEP_HEADS_MS) await this.redis.hdel(this.keys.auditHeads, chain);
    }
  }
}

/** `anna via console at 10.0.0.7` → `anna`. */
export const nameIn = (by: string): string => by.split(" via ")[0] ?? by;

function cutTexts(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  let left = MOST_TEXT;
  const cut = (text: string): string => {
    const bytes = Buffer.from(text);
    const kept = bytes.length <= left ? text : `${bytes.subarray(0, left).toString()}…`;
    left -= Math.min(left, bytes.length);
    return kept;
  };
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      // Who makes a list bounds it: of an ask, it is whole in several lines.
      return [name, typeof value === "string" ? cut(value) : value];
    }),
  );
}

function lineOf(text: string): WaitingAct["line"] {
  const space = text.indexOf(" ");
  const at = new Date(Number(text.slice(0, space))).toISOString();
  return { at, ...(JSON.parse(text.slice(space + 1)) as WaitingAct["line"]) };
}
