/** Verifies audit trails line by line: each chain must be whole, unchanged and in order. */
import { createHash } from "node:crypto";
import {
  headText,
  isKeyed,
  kindOf,
  parseLine,
  type Head,
  type Line,
  type LineHashes,
} from "./line.ts";

/** `line` counts from 1 in its file. */
interface Place {
  readonly file: string;
  readonly line: number;
}

/** Of what is missing as a whole. */
const NOWHERE: Place = { file: "", line: 0 };

/** A problem with its place. */
export interface Fault extends Place {
  readonly says: string;
}

export type Verified = ReturnType<Verification["end"]>;

/** A head from outside the files: what the chain must contain. */
export interface KnownHead {
  readonly head: Head;
  /** As people know it: Redis, or the option. */
  readonly from: string;
  /** Whether its chain must be in these files at all: other processes have files of their own. */
  readonly isRequired: boolean;
  /** A file of the same path on another host, which may have been the same disk. */
  readonly elsewhere?: string | undefined;
}

interface Chain {
  readonly first: number;
  readonly begun: Place;
  /** Whether each line is proven by a key. */
  isKeyed: boolean;
  /** By its own lines, ms. */
  newestAt: number;
  head: Head;
  place: Place;
}

export class Verification {
  readonly #hashes: LineHashes;
  readonly #after: Head | undefined;
  readonly #known: readonly KnownHead[];
  readonly #chains = new Map<string, Chain>();
  /** Known heads whose line was found. */
  readonly #met = new Set<KnownHead>();
  readonly #faults: Fault[] = [];
  readonly #notes: Fault[] = [];
  #lines = 0;
  /** A line that cannot be read: the next one may explain it. */
  #unreadable: (Place & { readonly text: string }) | undefined;

  /** File → its first line of a chain that is known. */
  readonly #firstKnown = new Map<string, number>();
  /** Chain and key → where its fault stands, and the lines that it is about. */
  readonly #spans = new Map<string, { at: number; from: number; to: number }>();
  readonly #forgottenBefore: number;

  /**
   * @param after the line before the first one
   * @param known heads that the files must contain
   * @param forgottenBefore Redis may have forgotten chains that ended before this time, ms
   */
  constructor(
    hashes: LineHashes,
    after: Head | undefined,
    known: readonly KnownHead[],
    forgottenBefore = Infinity,
  ) {
    this.#forgottenBefore = forgottenBefore;
    this.#hashes = hashes;
    this.#after = after;
    this.#known = known;
  }

  /** Takes the next line. @param text its bytes in a string (latin1) */
  add(text: string, file: string, number: number): void {
    const place = { file, line: number };
    this.#lines += 1;
    const line = parseLine(text);
    if (line === undefined) {
      this.#endUnreadable();
      this.#unreadable = { ...place, text };
      return;
    }
    this.#endUnreadable(line);
    this.#check(line, place);
  }

  end() {
    this.#endUnreadable();
    for (const chain of this.#chains.values()) this.#checkKeyed(chain);
    const doubted = [...this.#chains].filter(([id, chain]) => !this.#checkKnown(id, chain));
    for (const known of this.#known) if (!this.#met.has(known)) this.#missing(known);
    this.#checkAfter();
    if (this.#lines === 0 && this.#faults.length === 0) {
      this.#fault(NOWHERE, "there is no line: nothing was verified");
    }
    const isDoubted = (id: string) => doubted.some(([one]) => one === id);
    const chains = [...this.#chains].map(([id, { first, head }]) => ({
      first,
      head,
      ...(isDoubted(id) && { isDoubted: true }),
    }));
    /** Notes: what cannot be known, or is explained by a line of the trail. */
    return { lines: this.#lines, faults: this.#faults, notes: this.#notes, chains };
  }

  #check(line: Line, place: Place): void {
    const checked = this.#hashes.check(line);
    if (checked === "wrong")
      this.#fault(place, `line ${line.seq} was changed: its hash does not fit`);
    if (checked === "unknown_key") this.#uncheckable(line, place);
    const chain = this.#chains.get(line.chain);
    if (chain === undefined) this.#begin(line, place);
    else if (!this.#follows(line, chain.head, place)) return;
    else Object.assign(chain, { head: headOf(line), place });
    this.#meet(line, place);
    const entered = this.#chains.get(line.chain);
    if (entered !== undefined) {
      entered.isKeyed &&= isKeyed(line.hash) && checked === "right";
      entered.newestAt = Math.max(entered.newestAt, Date.parse(String(line.fields["at"])) || 0);
    }
    if (
      this.#known.some(({ head }) => head.chain === line.chain) &&
      !this.#firstKnown.has(place.file)
    )
      this.#firstKnown.set(place.file, place.line);
    const { act } = line.fields;
    if (act === "file.shortened") {
      this.#note(place, "the process found its file shorter than it had left it");
    }
  }

  /** One fault for all lines of one key that follow each other. */
  #uncheckable({ chain, hash, seq }: Line, { file, line }: Place): void {
    const key = `${chain} ${kindOf(hash)}`;
    const span = this.#spans.get(key);
    const isNext = span?.to === seq - 1;
    const { at, from } = isNext ? span : { at: this.#faults.length, from: seq };
    this.#spans.set(key, { at, from, to: seq });
    const place = this.#faults[at] ?? { file, line };
    const which = from === seq ? `line ${seq}` : `lines ${from} to ${seq}`;
    const says = `${which} cannot be checked: AUDIT_KEY does not hold ${from === seq ? "its" : "their"} key`;
    this.#faults[at] = { ...place, says };
  }

  /**
   * Without a key anybody can write a chain: one that Redis does not know is no trail of ours, unless it is so old
   * that Redis has forgotten it. Its own times prove nothing where it stands after lines of a chain that is known.
   */
  #checkKnown(id: string, { begun, head, isKeyed: isProven, newestAt, place }: Chain): boolean {
    const isKnown = this.#known.some((known) => known.head.chain === id || known.from !== "Redis");
    if (isKnown || isProven || this.#known.length === 0) return true;
    const isOld = newestAt < this.#forgottenBefore;
    if (isOld && !((this.#firstKnown.get(begun.file) ?? Infinity) < begun.line)) return true;
    const says = `Redis does not know the chain ${id}, which ends with line ${head.seq}: crmsync has not written it, or Redis has lost its data since`;
    this.#fault(place, says);
    return false;
  }

  #begin(line: Line, place: Place): void {
    const start = { first: line.seq, begun: place, isKeyed: true, newestAt: -Infinity };
    this.#chains.set(line.chain, { ...start, head: headOf(line), place });
    const after = this.#after?.chain === line.chain ? this.#after : undefined;
    if (after !== undefined) {
      this.#follows(line, after, place);
    } else if (line.seq > 1 && line.fields["act"] === "file.shortened") {
      const says = `the lines before line ${line.seq} are gone: the process found its file removed or cut (give the older files first, if there are any)`;
      this.#fault(place, says);
    } else if (line.seq !== 1 || line.prev !== null) {
      const says = `the trail begins with line ${line.seq}: whether the lines before it are whole, only their files can tell (give them first, or --after)`;
      this.#note(place, says);
    }
  }

  /** @returns whether the chain goes on with this line. */
  #follows(line: Line, { hash, seq }: Head, place: Place): boolean {
    const due = seq + 1;
    if (line.seq < due) {
      const says = `line ${line.seq} stands after line ${seq}: it was inserted or moved, or is there twice`;
      this.#fault(place, says);
      return false;
    }
    if (line.seq > due) {
      const last = line.seq - 1;
      const missing = last === due ? `line ${due} is` : `lines ${due} to ${last} are`;
      this.#fault(place, `${missing} missing before line ${line.seq}`);
    } else if (line.prev !== hash) {
      this.#fault(place, `line ${seq}, before this one, was replaced: the hash of it does not fit`);
    }
    if (isKeyed(hash) && !isKeyed(line.hash)) {
      this.#fault(place, `line ${line.seq} has no key, although the line before it has one`);
    }
    // Who has an old key that was replaced must not be able to add lines.
    if (this.#hashes.isOfOlderKey(line.hash, hash)) {
      this.#fault(place, `line ${line.seq} was made with an older key than the line before it`);
    }
    return true;
  }

  /** Compares the line with the heads that are known from elsewhere. */
  #meet(line: Line, place: Place): void {
    for (const known of this.#known) {
      if (known.head.chain !== line.chain || known.head.seq !== line.seq) continue;
      this.#met.add(known);
      if (known.head.hash === line.hash) continue;
      this.#fault(
        place,
        `line ${line.seq} has another hash than ${known.from} knows: it was replaced`,
      );
    }
  }

  #missing({ elsewhere, head, from, isRequired }: KnownHead): void {
    const chain = this.#chains.get(head.chain);
    if (chain === undefined && !isRequired) {
      const says = `the chain ${head.chain}, which ${from} knows up to line ${head.seq}, is not here: it was written to ${elsewhere}; if that was the same disk, its lines are missing`;
      if (elsewhere !== undefined) this.#note(NOWHERE, says);
      return;
    }
    // The file with this head's line was rotated away, and the files after it are whole.
    if (chain !== undefined && head.seq < chain.first) return;
    const place = chain?.place ?? NOWHERE;
    const says =
      chain === undefined
        ? `the chain ${head.chain} is missing: ${from} knows it up to line ${head.seq}; if the file was rotated since, give the older one first`
        : `the end is cut off after line ${chain.head.seq}: ${from} knows line ${head.seq}`;
    // A line that is missing in between has its own fault.
    if (chain === undefined || chain.head.seq < head.seq) this.#fault(place, says);
  }

  /** The head of --after must have met its chain: without it, nothing was compared with that head. */
  #checkAfter(): void {
    const { chain, seq } = this.#after ?? { chain: undefined, seq: 0 };
    if (chain === undefined || this.#chains.has(chain)) return;
    const says = `the chain ${chain} is missing: its line ${seq + 1} must be the first one here (--after)`;
    this.#fault(NOWHERE, says);
  }

  #checkKeyed({ head, place }: Chain): void {
    if (isKeyed(head.hash) || !this.#hashes.areKeyed) return;
    const says = `the trail ends with line ${head.seq} without a key, although AUDIT_KEY is set: anybody can have made it`;
    this.#fault(place, says);
  }

  /** @param next the line after it, which explains a torn one. */
  #endUnreadable(next?: Line): void {
    const unreadable = this.#unreadable;
    if (unreadable === undefined) return;
    this.#unreadable = undefined;
    const hash = createHash("sha256").update(unreadable.text, "latin1").digest("hex");
    const { act, torn } = next?.fields ?? {};
    if (act === "file.torn" && torn === `sha256:${hash}`) {
      this.#note(unreadable, "a crash has torn this line; its change was recorded again");
    } else {
      this.#fault(
        unreadable,
        "this is not a line of an audit trail: it was changed or inserted, or is torn",
      );
    }
  }

  #fault({ file, line }: Place, says: string): void {
    this.#faults.push({ file, line, says });
  }

  #note({ file, line }: Place, says: string): void {
    this.#notes.push({ file, line, says });
  }
}

const headOf = ({ chain, seq, hash }: Line): Head => ({ chain, seq, hash });

export const chainText = ({ first, head }: Pick<Chain, "first" | "head">): string =>
  `chain ${head.chain}: lines ${first} to ${head.seq}, head ${headText(head)}`;
