/**
 * The dead letters of a tenant by fault, as this process has counted them last. To count 100,000 takes
 * seconds. No page of the console waits for that: each page shows the last numbers, and when they were counted.
 * This process forgets the numbers when no page has asked for them for five minutes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { groupDeadLetters, type DeadGroups } from "../dead-letters/group.ts";
import type { DeadLetters } from "../../core/state/dead-letters.ts";

/** How long a page waits for newer numbers, ms. */
const WAIT_MS = 150;

/** Numbers are used for KEPT_MS, or for KEPT_TIMES the time that counting them took, if that is longer. */
const KEPT_MS = 1000;
const KEPT_TIMES = 10;

/** The numbers are forgotten when no page has asked for them for this long, ms. */
const FORGOTTEN_MS = 300_000;

/**
 * Dead letters of a group that can be listed and decided: in the order of their last failure, so that one which
 * fails again makes room for another.
 */
export const MOST_LISTED = 5000;

export interface CountedLetters {
  readonly groups: DeadGroups;
  /** Group → its dead letters, in the order of their last failure. */
  readonly members: ReadonlyMap<string, readonly Member[]>;
  /** When counting began, ms. */
  readonly at: number;
}

interface Member {
  readonly id: string;
  /** When it was stored last, ms. */
  readonly at: number;
}

export type Look = Awaited<ReturnType<DeadIndex["look"]>>;

export class DeadIndex {
  readonly #dead: Pick<DeadLetters, "details">;
  #counted: CountedLetters | undefined;
  /** By performance.now(). */
  #until = 0;
  #running: Promise<void> | undefined;
  /** The count under way may have begun before the last act. */
  #isOutdated = false;
  #seen = 0;
  #forgetting: NodeJS.Timeout | undefined;

  constructor(dead: Pick<DeadLetters, "details">) {
    this.#dead = dead;
  }

  /** For a page. @param isFresh whether it needs newer numbers than those that are known. */
  async look(isFresh = false) {
    if (isFresh) this.outdate();
    await Promise.race([this.#refresh(), sleep(WAIT_MS, undefined, { ref: false })]);
    return {
      /** Undefined while they are counted for the first time. */
      counted: this.#counted,
      /** Newer numbers are being counted. */
      isCounting: this.#running !== undefined,
      /** How many dead letters were looked at so far. */
      seen: this.#seen,
    };
  }

  /** For an act: waits until the dead letters are counted. */
  async wait(): Promise<CountedLetters> {
    await this.#refresh();
    return this.#counted ?? this.wait();
  }

  /** To be called after an act: what is known is no longer true. */
  outdate(): void {
    this.#until = 0;
    this.#isOutdated = this.#running !== undefined;
  }

  async #refresh(): Promise<void> {
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => (this.#counted = undefined), FORGOTTEN_MS).unref();
    if (this.#counted !== undefined && performance.now() < this.#until) return;
    this.#running ??= this.#count().finally(() => (this.#running = undefined));
    await this.#running;
  }

  async #count(): Promise<void> {
    const [at, began] = [Date.now(), performance.now()];
    this.#isOutdated = false;
    this.#seen = 0;
    const members = new Map<string, Member[]>();
    const groups = await groupDeadLetters(this.#dead, {}, ({ at: storedAt, id }, keys) => {
      const member = { id, at: storedAt };
      this.#seen += 1;
      for (const key of keys) {
        const known = members.get(key.id);
        if (known === undefined) members.set(key.id, [member]);
        else known.push(member);
      }
    });
    for (const [id, all] of members) members.set(id, listed(all));
    this.#counted = { groups, members, at };
    const now = performance.now();
    this.#until = this.#isOutdated ? 0 : now + Math.max(KEPT_MS, KEPT_TIMES * (now - began));
  }
}

const listed = (all: Member[]): Member[] => all.sort((a, b) => a.at - b.at).slice(0, MOST_LISTED);
