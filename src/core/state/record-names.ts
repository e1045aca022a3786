/**
 * Finds the record that a person names: the one lookup of `crmsync why`, `dead` and `forget`, and of the console. An
 * exact name costs a few reads. Only for a name that nothing has, the ledger and the dead letters are looked through.
 */
import type { Redis } from "ioredis";
import type { RecordIds } from "../event/crm-event.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { writerOf } from "../sync/known.ts";
import type { DeadLetters, LetterDetails } from "./dead-letters.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";
import type { Ledger } from "./ledger.ts";
import { pairsOf } from "./scan.ts";
import type { StagedStates } from "./staged-state.ts";

interface Stores {
  readonly redis: Redis;
  readonly keys: Keys;
  readonly ledger: Ledger;
  readonly staged: StagedStates;
  readonly history: History;
  readonly deadLetters: DeadLetters;
}

export interface Names {
  /** Newest first; for a name that can be no record of the CRM at least the name itself. */
  readonly crmCodes: readonly string[];
  /** The name, if it can be that of a record in the CRM. */
  readonly subject: string | undefined;
  /** Of a record of the CRM that led to no crmCode: the newest dead letter of its events. */
  readonly letterId: string | undefined;
}

export type LetterName = Pick<LetterDetails, "id" | "at" | "crmCode" | "subject">;

/** A record with a name like the one that was asked for. */
export interface SimilarRecord {
  readonly crmCode: string | undefined;
  readonly subject: string | undefined;
}

export interface Similar {
  readonly records: readonly SimilarRecord[];
  /** Half a sentence if there are more, or if not all was looked through; else "". */
  readonly more: string;
}

export const NONE_SIMILAR: Similar = { records: [], more: "" };

/** `<object>/<recordId>` */
const SUBJECT = /^[^/]+\/.+$/;

/** Most records that are named as similar. */
const MOST = 10;

/** Rows, and dead letters, that are looked through at most: less than a second, and Redis serves others in between. */
const MOST_ROWS = 200_000;
const PAGE = 1000;

/** Most objects of CRMs that are tried. */
const MOST_OBJECTS = 20;

export class RecordNames {
  readonly #stores: Stores;
  #letters: Promise<LetterName[]> | undefined;

  /** Sees the dead letters as they were at its first search. */
  constructor(stores: Stores) {
    this.#stores = stores;
  }

  /** @param name a crmCode, or a record of the CRM. */
  async find(name: string): Promise<Names> {
    const subject = SUBJECT.test(name) ? name : undefined;
    const [isKnown, codes] = await Promise.all([
      this.#isCode(name),
      subject === undefined ? [] : this.#codesOf(subject),
    ]);
    // A crmCode may look like the name of a record.
    const known = isKnown || subject === undefined ? [name, ...codes] : codes;
    if (known.length > 0) return { crmCodes: [...new Set(known)], subject, letterId: undefined };
    const letters = (await this.#allLetters())
      .filter((letter) => letter.subject === subject)
      .sort((a, b) => b.at - a.at);
    const told = new Set(letters.flatMap(({ crmCode }) => crmCode ?? []));
    return { crmCodes: [...told], subject, letterId: told.size > 0 ? undefined : letters[0]?.id };
  }

  /** Ids of the dead letters that a name means: an id, a crmCode, or a record of the CRM. */
  async letters(name: string): Promise<string[]> {
    const { keys, redis } = this.#stores;
    // A crmCode with a slash may be the record of another letter.
    const ids = name.includes("/") ? [name] : [name, deadLetterId(name)];
    for (const id of ids) if ((await redis.hexists(keys.deadLetters, id)) === 1) return [id];
    const codes = new Set((await this.find(name)).crmCodes);
    return (await this.#allLetters())
      .filter(({ crmCode, subject }) => subject === name || codes.has(crmCode ?? ""))
      .map(({ id }) => id);
  }

  /** Records that may be meant: in another case or form of the id, with or without the object. */
  async similar(name: string, { formOf }: Pick<RecordIds, "formOf">): Promise<Similar> {
    const { history, keys, redis } = this.#stores;
    const given = idIn(name.trim()).replace(/^\{(.+)\}$/, "$1");
    if (given === "") return NONE_SIMILAR;
    const [, objects] = await redis.sscan(keys.objects, 0, "COUNT", MOST_OBJECTS);
    const forms = objects.map((object) => idIn(formOf(`${object}/${given}`)));
    const ids = [...new Set([given, ...forms, given.toLowerCase(), given.toUpperCase()])];
    const found = new Map<string, SimilarRecord>();
    const add = (crmCode: string | undefined, subject?: string) => {
      const known = found.get(crmCode ?? subject ?? "");
      if ((crmCode ?? subject) !== name && known?.subject === undefined)
        found.set(crmCode ?? subject ?? "", { crmCode, subject });
    };
    // As most crmCodes are: then it does not matter how many there are.
    for (const id of ids) if (await this.#isCode(id)) add(id);
    const subjects = objects
      .slice(0, MOST_OBJECTS)
      .flatMap((object) => ids.map((id) => `${object}/${id}`));
    const read = subjects.map(async (subject) => {
      const codes = await this.#codesOf(subject);
      for (const crmCode of codes) add(crmCode, subject);
      if (codes.length === 0 && (await history.hasSubject(subject))) add(undefined, subject);
    });
    await Promise.all(read);
    const isLike = (text: string) => ids.some((id) => hasPart(text, id));
    const letters = await this.#allLetters();
    for (const { crmCode, subject = "" } of letters) {
      if (isLike(crmCode ?? "") || isLike(idIn(subject))) add(crmCode, subject || undefined);
    }
    const rows = await this.#codesLike(given, isLike);
    for (const crmCode of rows.codes) add(crmCode);
    return {
      records: [...found.values()].slice(0, MOST),
      more: found.size > MOST ? "there are more" : rows.cut,
    };
  }

  /** crmCodes to which a record of the CRM led, newest first. */
  async #codesOf(subject: string): Promise<string[]> {
    const { history, ledger, staged } = this.#stores;
    const own = idIn(subject);
    const [told, led, row] = await Promise.all([
      history.codesOf(subject),
      staged.codeOf(subject),
      ledger.row(own),
    ]);
    const isOwn = row?.writer === writerOf(subject);
    return [...new Set([...told, ...(led === undefined ? [] : [led]), ...(isOwn ? [own] : [])])];
  }

  /** Whether anything is kept under this crmCode. */
  async #isCode(name: string): Promise<boolean> {
    const { keys, redis } = this.#stores;
    const found = await Promise.all([
      redis.hexists(keys.ledger, name),
      redis.exists(keys.staged(name)),
      redis.hexists(keys.deadLetters, deadLetterId(name)),
      redis.exists(keys.history("crmCode", name)),
    ]);
    return found.some((count) => count > 0);
  }

  #allLetters(): Promise<LetterName[]> {
    return (this.#letters ??= this.#readLetters());
  }

  async #readLetters(): Promise<LetterName[]> {
    const letters: LetterName[] = [];
    for await (const { id, at, crmCode, subject = "" } of this.#stores.deadLetters.details()) {
      letters.push({ id, at, crmCode, subject });
      if (letters.length === MOST_ROWS) break;
    }
    return letters;
  }

  /** crmCodes of the ledger, and of changes that wait, which contain the id. */
  async #codesLike(
    id: string,
    isLike: (text: string) => boolean,
  ): Promise<{ codes: string[]; cut: string }> {
    const { keys, redis } = this.#stores;
    const codes: string[] = [];
    const match = `*${anyCase(id)}*`;
    let looked = 0;
    for (const [scan, key] of [
      ["zscan", keys.line("bulk")],
      ["zscan", keys.later],
      ["hscan", keys.ledger],
    ] as const) {
      let cursor = "0";
      do {
        const [next, flat] = await redis[scan](key, cursor, "MATCH", match, "COUNT", PAGE);
        cursor = next;
        looked += PAGE;
        codes.push(...pairsOf(flat).flatMap(([code]) => (isLike(code) ? [code] : [])));
        if (codes.length > MOST) return { codes, cut: "there are more" };
        if (looked >= MOST_ROWS && cursor !== "0") {
          const rows = await redis.hlen(keys.ledger);
          const cut = `of ${rows} crmCodes only the first ${MOST_ROWS} were looked through`;
          return { codes, cut };
        }
      } while (cursor !== "0");
    }
    return { codes, cut: "" };
  }
}

/** The part after the object; all of a name without one. */
const idIn = (name: string): string => name.slice(name.indexOf("/") + 1);

/**
 * Whether a text contains an id that no letter or digit continues, in any case: `7` is in `hs-7` and `p7`, and not in
 * `17`. After the 15 characters of an id of Salesforce there may be its three more.
 */
function hasPart(whole: string, id: string): boolean {
  const part = id.toLowerCase();
  const text = whole
    .toLowerCase()
    .replace(part.length === 15 ? /(?<=[a-z\d]{15})[a-z\d]{3}$/ : "", "");
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    const end = at + part.length;
    if (!isOne(text.slice(at - 1, at + 1)) && !isOne(text.slice(end - 1, end + 1))) return true;
  }
  return false;
}

const isOne = (pair: string): boolean => /^(?:\d\d|\p{L}\p{L})$/u.test(pair);

/** As a pattern of Redis, which knows bytes: of other letters than ASCII it tells no case. */
const anyCase = (text: string): string =>
  text.replace(/[a-z]|[^\w-]/gi, (one) =>
    /[a-z]/i.test(one) ? `[${one.toLowerCase()}${one.toUpperCase()}]` : "*",
  );
