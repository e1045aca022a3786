/**
 * What stops sending or intake, from its beginning to its end, for the audit trail: a line for each of both. All
 * processes share what is under way; one of them at a time looks.
 */
import type { Redis } from "ioredis";
import type { AuditActs } from "./audit-acts.ts";
import type { Keys } from "./keys.ts";
import { objectIn, Store, type Call } from "./store.ts";

export interface Interruption {
  /** Section of docs/runbook.md. */
  readonly reason: string;
  /** Of which CRM or source it is, where there may be several. */
  readonly about?: string | undefined;
  readonly says: string;
}

type Open = Interruption & { readonly since: number; readonly isNoted?: true };

/** One that is over sooner leaves no line, ms. Without a look for so long, no process ran, or Redis could not be used. */
const SHORT_MS = 60_000;

/** Field of the last look; all other fields are interruptions under way. */
const LOOKED = "looked";

const iso = (ms: number): string => new Date(ms).toISOString();

export class Interruptions extends Store {
  readonly #acts: AuditActs;

  constructor(redis: Redis, keys: Keys, acts: AuditActs) {
    super(redis, keys);
    this.#acts = acts;
  }

  /** Whether this process is the one that looks now. */
  claimLook(everyMs: number): Promise<boolean> {
    return this.claimFor(this.keys.interruptionsLook, everyMs);
  }

  /** @param found all that are under way now. @param by the process */
  async note(found: readonly Interruption[], by: string): Promise<void> {
    const { interruptions: key } = this.keys;
    const { [LOOKED]: looked = "", ...known } = await this.redis.hgetall(key);
    const now = await this.time();
    const calls: Call[] = [["HSET", key, LOOKED, now]];
    const line = async (act: "begin" | "end", { about, reason, says, since }: Open) => {
      const until = act === "end" ? { until: iso(now) } : {};
      const details = { reason, about, says, since: iso(since), ...until };
      calls.push(...(await this.#acts.callsOf({ act: `interruption.${act}`, by, details })));
    };
    if (looked !== "" && now - Number(looked) > SHORT_MS) {
      const says = "No process of crmsync was running, or Redis could not be used.";
      await line("end", { reason: "crmsyncdown", says, since: Number(looked) });
    }
    const names = new Map(found.map((one) => [`${one.reason} ${one.about ?? ""}`, one]));
    for (const [name, one] of names) {
      const open = objectIn(known[name] ?? "") as Open | undefined;
      const since = open?.since ?? now;
      const isNoted = open?.isNoted === true || now - since >= SHORT_MS;
      if (isNoted && open?.isNoted !== true) await line("begin", { ...one, since });
      const next = JSON.stringify({ ...one, since, ...(isNoted && { isNoted }) });
      if (next !== known[name]) calls.push(["HSET", key, name, next]);
    }
    for (const [name, text] of Object.entries(known)) {
      if (names.has(name)) continue;
      const open = objectIn(text) as Open | undefined;
      if (open?.isNoted) await line("end", open);
      calls.push(["HDEL", key, name]);
    }
    // Another process may have looked meanwhile: it has noted the same.
    await this.commit([["HGET", key, LOOKED, looked]], calls);
  }
}
