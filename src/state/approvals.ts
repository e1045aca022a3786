/**
 * Acts of one person that wait for another one, the rule which acts do, and who holds which token. What was asked is
 * kept by crmCodes and ids: no values of a person.
 */
import { randomInt } from "node:crypto";
import { hashReading, jsonReading, readOne, type Reading } from "../ops/redis-reading.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { type Call, Store } from "./store.ts";

/** Acts that may need a second person (APPROVALS). */
export type ApprovalAct = "held" | "plan" | "forget" | "drop";

/** An ask that is not approved, and an approval that is not carried out, end after this time, ms. */
export const APPROVAL_MS = 86_400_000;

/** A plan that was begun with an approval can be continued with it for this time, ms. */
const BEGUN_MS = 30 * 86_400_000;

/** Most asks that are open or approved at a time, and most records that one of them may name. */
const MOST_OPEN = 100;
export const MOST_ASKED = 5000;

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
  /** Marks of their tokens (people/person.ts). */
  readonly marks: readonly string[];
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
  /** Fields that the comparison has warned of, and that the person has accepted. */
  readonly accept: readonly string[];
  /** Asked for on the console: the daemon of its machine carries it out. */
  readonly isByDaemon: boolean;
}

/** A crmCode or the id of a dead letter, and what must still be so: `heldAt`; `firstAt` and `times`. */
export type AskedItem = readonly [name: string, ...was: number[]];

/** What was asked. */
export interface Asked {
  readonly act: ApprovalAct;
  /** Of `held`. */
  readonly what?: "release" | "drop";
  /** Of `plan`. */
  readonly plan?: AskedPlan;
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
   * @returns undefined when too many are open.
   */
  async ask(
    asked: Asked,
    asker: Who,
    items: readonly AskedItem[],
    state: "open" | "approved",
    calls: (id: string) => Promise<Call[]>,
  ): Promise<Approval | undefined> {
    const { approvals, approvalItems } = this.keys;
    for (;;) {
      const [all, size, now] = await Promise.all([
        readOne(this.redis, this.reading()),
        this.redis.hlen(approvals),
        this.time(),
      ]);
      if (all.filter((one) => !isEnded(one)).length >= MOST_OPEN) return undefined;
      const id = newId(all.map((one) => one.id));
      const times = { askedAt: now, at: now, expiresAt: now + APPROVAL_MS };
      const made: Approval = { ...asked, id, state, asker, ...times, count: items.length };
      const isDone = await this.commit(
        [["HLEN", approvals, String(size)]],
        [
          ["HSET", approvals, id, JSON.stringify(made)],
          // An approval may come at the end of its time.
          ["SET", approvalItems(id), JSON.stringify(items), "PX", 3 * APPROVAL_MS],
          ...forgotten(all).map((old) => ["HDEL", approvals, old] as const),
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

  /** What it names; nothing once it has ended. */
  async items(id: string): Promise<AskedItem[]> {
    const text = await this.redis.get(this.keys.approvalItems(id));
    return text === null ? [] : (JSON.parse(text) as AskedItem[]);
  }

  /**
   * @param next what is different then; an approval extends its time.
   * @param calls written in the same step.
   * @returns undefined when it has changed since it was read: nothing was written then.
   */
  async change(
    one: Approval,
    next: Pick<Approval, "state"> & Partial<Pick<Approval, "decider" | "says">>,
    calls: readonly Call[] = [],
  ): Promise<Approval | undefined> {
    const { approvals, approvalItems } = this.keys;
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
      [
        ["HSET", approvals, one.id, JSON.stringify(changed)],
        ...(isEnded(changed) ? [["DEL", approvalItems(one.id)] as const] : []),
        ...calls,
      ],
    );
    return isDone ? changed : undefined;
  }

  /**
   * Takes what is erased out of what was asked and has not ended.
   * @param names crmCodes, and records of the CRM
   */
  async forget(names: readonly string[]): Promise<void> {
    const erased = new Set([...names, ...names.map(deadLetterId)]);
    for (const one of await readOne(this.redis, this.reading())) {
      if (isEnded(one)) continue;
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

  async keepRule(rule: ApprovalRule): Promise<void> {
    await this.write("SET", this.keys.approvalRule, JSON.stringify(rule));
  }
}

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
