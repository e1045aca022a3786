/**
 * Acts of one person that wait for another one, the rule which acts do, and who holds which token. What was asked is
 * kept by crmCodes and ids: no values of a person.
 */
import { hash, randomInt } from "node:crypto";
import { hashReading, jsonReading, readOne, type Reading } from "../../base/redis-reading.ts";
import { maybeSamePerson } from "../../base/person.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { objectIn, readAll, type Call, Store } from "./store.ts";

/** Acts that may need a second person (APPROVALS). */
export type ApprovalAct = "held" | "plan" | "forget" | "drop" | "mapping";

/** An ask that is not approved, and an approval that is not carried out, end after this time, ms. */
export const APPROVAL_MS = 86_400_000;

/** A plan that was begun with an approval can be continued with it for this time, ms. */
const BEGUN_MS = 30 * 86_400_000;

/** Most asks that are open or approved at a time, those of one person among them, and most records that one may name. */
const MOST_OPEN = 100;
const MOST_OF_ONE = 20;
export const MOST_ASKED = 5000;

/** Records read in one round trip. */
const PAGE = 200;

/** The last ones that have ended are shown. */
const MOST_ENDED = 20;

/** No character that is easily taken for another one. */
const ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ";
const ID_LENGTH = 6;

/** Who has asked, or decided. */
export interface Who {
  /** As the audit trail names them. */
  readonly by: string;
  /** All names by which they are known. */
  readonly names: readonly string[];
  /** Marks of their tokens (base/person.ts). */
  readonly marks: readonly string[];
  /** By the identity provider; otherwise by a token. */
  readonly isSignedIn?: boolean | undefined;
  /** An address that is proven to be theirs. */
  readonly address?: string | undefined;
}

/** Records of one kind that an ask names. */
export interface AskedGroup {
  /** As "termination". */
  readonly kind: string;
  readonly count: number;
  /** Field → on how many of them it is emptied, changed or at fault. */
  readonly fields: Readonly<Record<string, number>>;
  /** Source → of how many of them. */
  readonly sources: Readonly<Record<string, number>>;
  /** Why a person must decide. */
  readonly why?: string | undefined;
  /** Since when the first of them waits, ms. */
  readonly since?: number | undefined;
}

/** The plan that is to be carried out, as it was when it was asked for. */
export interface AskedPlan {
  readonly id: string;
  readonly hash: string;
  readonly host: string;
  readonly file: string;
  /** When it was made, ms. */
  readonly at: number;
  readonly creates: number;
  readonly updates: number;
  readonly terminations: number;
  readonly about: readonly AskedGroup[];
  /** Fields that the comparison has warned of, and that the person has accepted. */
  readonly accept: readonly string[];
  /** Asked for on the console: the daemon of its machine carries it out. */
  readonly isByDaemon: boolean;
}

/** The mapping that is to be used. */
export interface AskedMapping {
  /** `sha256:<hex>` of its file. */
  readonly hash: string;
  /** Of the file, without its folder. */
  readonly name: string;
  /** With which other mapping it was compared; undefined: with none. */
  readonly beside?: {
    readonly name: string;
    readonly hash: string | undefined;
    /** Whether it is the one that was approved last. */
    readonly isApproved: boolean;
    /** Rules that differ, as `contact.city`; undefined: it has no file. */
    readonly rules: readonly string[] | undefined;
    /** Records that were mapped with both, and those of which they make another payload. */
    readonly records: number;
    readonly differ: number;
  };
  readonly about: readonly AskedGroup[];
}

/** A crmCode or the id of a dead letter, and what must still be so: `version`; `firstAt` and `times`. */
export type AskedItem = readonly [name: string, ...was: number[]];

/** What was asked. */
export interface Asked {
  readonly act: ApprovalAct;
  /** Of `held`. */
  readonly what?: "release" | "drop";
  /** Of `plan`. */
  readonly plan?: AskedPlan;
  /** Of `mapping`. */
  readonly mapping?: AskedMapping;
  /** Of `forget`: the names that were given. */
  readonly names?: readonly string[] | undefined;
  readonly reason?: string | undefined;
}

export interface Approval extends Asked {
  readonly id: string;
  /**
   * open → approved → done; open → rejected or expired; approved → expired. `approved`: not carried out yet, or a plan
   * that is being carried out.
   */
  readonly state: "open" | "approved" | "done" | "rejected" | "expired";
  readonly asker: Who;
  readonly askedAt: number;
  /** ms */
  readonly expiresAt: number;
  /** How many records it names. */
  readonly count: number;
  /** How many more it named that were decided, or replaced by newer events, before it was approved. */
  readonly gone?: number;
  /** What they are, the most first. */
  readonly about: readonly AskedGroup[];
  /** The same for asks for the same thing. */
  readonly same: string;
  /** Undefined: not decided yet, or no approval was needed. */
  readonly decider?: Who;
  /** When it got its present state, ms. */
  readonly at: number;
  /** What became of it, or why it was rejected. */
  readonly says?: string;
}

/** What is in force, as the running daemons have it. */
export interface ApprovalRule {
  readonly acts: readonly string[];
  /** Mark of a token → the name of who holds it. */
  readonly holders: Readonly<Record<string, string>>;
}

export class Approvals extends Store {
  /** In no order. */
  reading(): Reading<Approval[]> {
    const all = hashReading(this.keys.approvals, (text) => JSON.parse(text) as Approval);
    return { ...all, meaning: (reply) => Object.values(all.meaning(reply)) };
  }

  /** Newest first. Those whose time is over expire now. @param endCalls what is written with each of them */
  async all(endCalls: (expired: Approval) => Promise<Call[]>): Promise<Approval[]> {
    const [all, now] = await Promise.all([readOne(this.redis, this.reading()), this.time()]);
    const present = await Promise.all(
      all.map(async (one) => {
        if (!isOver(one, now)) return one;
        const expired = await this.change(one, { state: "expired" }, await endCalls(one));
        return expired ?? one;
      }),
    );
    return present.sort((a, b) => b.askedAt - a.askedAt || (a.id < b.id ? -1 : 1));
  }

  /**
   * @param state `approved`: no second person is needed, and a daemon is to do it.
   * @param calls written in the same step; they may name the id.
   * @returns the one that asks for the same already, if there is one; undefined when too many are open.
   */
  async ask(
    asked: Asked & Pick<Approval, "about">,
    asker: Who,
    items: readonly AskedItem[],
    state: "open" | "approved",
    calls: (id: string) => Promise<Call[]>,
  ): Promise<Approval | undefined> {
    const same = sameText(asked, items);
    const { approvals, approvalItems } = this.keys;
    for (;;) {
      const [all, size, now] = await Promise.all([
        readOne(this.redis, this.reading()),
        this.redis.hlen(approvals),
        this.time(),
      ]);
      const waiting = all.filter((one) => !isEnded(one));
      const first = waiting.find((one) => one.same === same);
      if (first !== undefined) return first;
      const own = waiting.filter((one) => maybeSamePerson(one.asker, asker));
      if (waiting.length >= MOST_OPEN || own.length >= MOST_OF_ONE) return undefined;
      const id = newId(all.map((one) => one.id));
      const times = { askedAt: now, at: now, expiresAt: now + APPROVAL_MS };
      const made: Approval = { ...asked, id, state, asker, ...times, count: items.length, same };
      const isDone = await this.commit(
        [["HLEN", approvals, String(size)]],
        [
          ["HSET", approvals, id, JSON.stringify(made)],
          // They stay for as long as it is shown, also when it has ended.
          ["SET", approvalItems(id), JSON.stringify(items), "PX", BEGUN_MS],
          ...forgotten(all).flatMap((old) => [
            ["HDEL", approvals, old] as const,
            ["DEL", approvalItems(old)] as const,
          ]),
          ...(await calls(id)),
        ],
      );
      if (isDone) return made;
    }
  }

  async find(id: string): Promise<Approval | undefined> {
    const text = await this.redis.hget(this.keys.approvals, id);
    return text === null ? undefined : (JSON.parse(text) as Approval);
  }

  /** What it names; nothing once it is not shown any more. */
  async items(id: string): Promise<AskedItem[]> {
    const text = await this.redis.get(this.keys.approvalItems(id));
    return text === null ? [] : (JSON.parse(text) as AskedItem[]);
  }

  /** What of an ask about held changes, or dead letters, is still as it was when it was asked for. */
  async unchanged({ act, id }: Approval): Promise<AskedItem[]> {
    const items = await this.items(id);
    const left: AskedItem[] = [];
    for (let from = 0; from < items.length; from += PAGE) {
      const page = items.slice(from, from + PAGE);
      const names = page.map(([name]) => name);
      const texts: unknown[] = await (act === "drop"
        ? this.redis.hmget(this.keys.deadLetters, ...names)
        : readAll(
            this.redis,
            names.map((name) => ["HGET", this.keys.staged(name), "state"]),
          ));
      left.push(...page.filter(([, ...was], n) => was.join() === wasOf(texts[n])));
    }
    return left;
  }

  /**
   * @param next what is different then; an approval extends its time.
   * @param calls written in the same step.
   * @returns undefined when it has changed since it was read: nothing was written then.
   */
  async change(
    one: Approval,
    next: Pick<Approval, "state"> & Partial<Approval>,
    calls: readonly Call[] = [],
  ): Promise<Approval | undefined> {
    const { approvals } = this.keys;
    const now = await this.time();
    const isBegun = one.state === "approved" && next.state === "approved";
    const changed = {
      ...one,
      ...next,
      at: now,
      // Who was erased must not stay here.
      ...(isEnded(next) && { names: undefined }),
      ...(next.state === "approved" && { expiresAt: now + (isBegun ? BEGUN_MS : APPROVAL_MS) }),
    };
    const isDone = await this.commit(
      [["HGET", approvals, one.id, JSON.stringify(one)]],
      [["HSET", approvals, one.id, JSON.stringify(changed)], ...calls],
    );
    return isDone ? changed : undefined;
  }

  /**
   * Takes what is erased out of what was asked.
   * @param names crmCodes, and records of the CRM
   */
  async forget(names: readonly string[]): Promise<void> {
    const erased = new Set([...names, ...names.map(deadLetterId)]);
    for (const one of await readOne(this.redis, this.reading())) {
      const { approvals, approvalItems } = this.keys;
      const items = await this.items(one.id);
      const left = items.filter(([name]) => !erased.has(name));
      if (left.length < items.length)
        await this.write("SET", approvalItems(one.id), JSON.stringify(left), "KEEPTTL");
      const given = one.names?.filter((name) => !erased.has(name));
      // One that is approved is this very act, which loses its names when it ends.
      if (one.state === "open" && given?.length !== one.names?.length) {
        const text = JSON.stringify({ ...one, names: given });
        await this.swap(approvals, one.id, JSON.stringify(one), text);
      }
    }
  }

  /** Undefined: no daemon has run here. */
  async rule(): Promise<ApprovalRule | undefined> {
    return readOne(this.redis, jsonReading<ApprovalRule>("get", this.keys.approvalRule));
  }

  /** @param own acts of this process: it may have been started without APPROVALS, or no daemon with it has run yet */
  async needs(own: readonly string[], act: ApprovalAct): Promise<boolean> {
    return own.includes(act) || (await this.rule())?.acts.includes(act) === true;
  }

  /** The approval of the mapping that was approved last. */
  async approvedMapping(): Promise<Approval | undefined> {
    const approved = jsonReading<Approval>("hget", this.keys.approvedMapping, "approved");
    return readOne(this.redis, approved);
  }

  approvedMappingCall(one: Approval): Call {
    return ["HSET", this.keys.approvedMapping, "approved", JSON.stringify(one)];
  }

  /**
   * Whether changes may be made with this mapping: with the one that was approved last, and with the one before until
   * a process has begun to use that. So it can be approved before it is rolled out.
   * @param own acts of this process
   * @param hash of the mapping; undefined: it is a module
   */
  async mayMap(own: readonly string[], hash: string | undefined): Promise<boolean> {
    if (!(await this.needs(own, "mapping"))) return true;
    if (hash === undefined) return false;
    const { approvedMapping: key } = this.keys;
    const [approved, used] = await Promise.all([
      this.approvedMapping(),
      this.redis.hget(key, "used"),
    ]);
    if (hash === used) return true;
    if (hash !== approved?.mapping?.hash) return false;
    await this.write("HSET", key, "used", hash);
    return true;
  }

  async keepRule(rule: ApprovalRule): Promise<void> {
    await this.write("SET", this.keys.approvalRule, JSON.stringify(rule));
  }
}

/** The rest of an item, by what Redis has now. */
function wasOf(text: unknown): string | undefined {
  const { first, held, times, version } = (typeof text === "string" && objectIn(text)) || {};
  if (first !== undefined) return [first, times].join();
  return held === undefined ? undefined : String(version);
}

export const sameText = (
  { act, mapping, names, plan, what }: Asked,
  items: readonly AskedItem[],
): string => {
  const all = items.map((item) => item.join(" ")).sort();
  const about = [act, what, names, plan?.id, plan?.hash, mapping?.hash, all];
  return hash("sha256", JSON.stringify(about), "base64url");
};

export const isEnded = ({ state }: Pick<Approval, "state">): boolean =>
  state !== "open" && state !== "approved";

/** Whether its time is over. @param now Redis' time, ms */
export const isOver = (one: Approval, now: number): boolean =>
  !isEnded(one) && now >= one.expiresAt;

/** Ids of those that have ended and are not shown any more, once there is one more. */
const forgotten = (all: readonly Approval[]): string[] =>
  all
    .filter(isEnded)
    .sort((a, b) => b.at - a.at)
    .slice(MOST_ENDED)
    .map(({ id }) => id);

function newId(taken: readonly string[]): string {
  for (;;) {
    const letters = Array.from({ length: ID_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]);
    const id = letters.join("");
    if (!taken.includes(id)) return id;
  }
}
