/** Finds what Redis holds about one person. */
import { RecordNames } from "../state/record-names.ts";
import type { Stores } from "../status/stores.ts";
import type { EventNames } from "./name-event.ts";
import { Person } from "./person.ts";
import { readHistories, readPieces, type Piece, type Place } from "./read-traces.ts";
import { lookAtRecord, type RecordTrace } from "./record-traces.ts";

/** Kinds of traces, in the words that the command prints. */
export const TRACES = {
  ledger: ["row of the ledger", "rows of the ledger"],
  staged: ["staged state", "staged states"],
  verify: ["state to verify", "states to verify"],
  inbox: ["event in the inbox", "events in the inbox"],
  fetch: ["record to fetch", "records to fetch"],
  dead: ["dead letter", "dead letters"],
  told: ["outcome to be told", "outcomes to be told"],
  history: ["history", "histories"],
  tries: ["count of tries", "counts of tries"],
} as const satisfies Readonly<Record<RecordTrace | Place, readonly [one: string, many: string]>>;

export type TraceKind = keyof typeof TRACES;
export type Counts = Partial<Record<TraceKind, number>>;

export type Traces = Awaited<ReturnType<TraceFinder["find"]>>;

export class TraceFinder {
  readonly #stores: Stores;
  readonly #events: EventNames;
  readonly #given: readonly string[];
  /** Knows more names after each search. */
  readonly #person: Person;
  #isFirst = true;
  readonly lookup: RecordNames;

  /** @param given names of one person, each a crmCode or a record of the CRM. */
  constructor(stores: Stores, events: EventNames, given: readonly string[]) {
    this.#stores = stores;
    this.#events = events;
    this.#given = given;
    this.#person = new Person(given);
    this.lookup = new RecordNames(stores);
  }

  /** All names of the person's records that are known by now, the given names among them. */
  get subjects(): string[] {
    return [...this.#person.subjects];
  }

  async find() {
    const all: Piece[] = [];
    for await (const piece of readPieces(this.#stores, this.#events)) all.push(piece);
    await this.#learnFrom(all);
    const named = all.filter((piece) => this.#person.isIn(piece));
    // What is kept under a crmCode is looked at there.
    const pieces = named.filter(({ place }) => place !== "staged" && place !== "verify");
    for (const subject of this.#person.subjects) {
      if (await this.#stores.history.hasSubject(subject))
        pieces.push({ place: "history", id: subject, subject });
    }
    const counts: Counts = {};
    const count = (kind: TraceKind) => (counts[kind] = (counts[kind] ?? 0) + 1);
    for (const { place } of pieces) count(place);
    const crmCodes: string[] = [];
    for (const crmCode of this.#person.crmCodes) {
      const found = await lookAtRecord(this.#stores, crmCode);
      for (const kind of found) count(kind);
      if (found.length > 0 || named.some((piece) => piece.crmCode === crmCode))
        crmCodes.push(crmCode);
    }
    const subjects = new Set([...named, ...pieces].flatMap(({ subject }) => subject ?? []));
    return {
      counts: counts as Readonly<Counts>,
      /** Events and dead letters, which are erased one by one. */
      pieces,
      /** crmCodes under which something is kept. */
      crmCodes,
      /** The person's records in the CRM, as far as the traces name them. */
      subjects: [...subjects],
      /** What is of another crmCode, and names one of these records: a merge, or a crmCode of its own. */
      related: all.filter((piece) => this.#person.isRelated(piece)),
    };
  }

  /**
   * Where no trace tells the crmCode of a record, the mapping may make it from the subject. Only at
   * first: later the trace that told it is erased, and what the mapping makes may be of a stranger.
   */
  async #learnFrom(pieces: readonly Piece[]): Promise<void> {
    this.#person.learnFrom(pieces);
    if (!this.#isFirst) return;
    this.#isFirst = false;
    const all = [...pieces, ...(await readHistories(this.#stores, this.lookup, this.#given))];
    for (const name of this.#given) {
      const isTold = all.some(({ crmCode, subject }) => subject === name && crmCode !== undefined);
      if (isTold || !/^[^/]+\/.+$/.test(name)) continue;
      const crmCode = await this.#events.crmCodeOf(name);
      if (crmCode !== undefined) this.#person.crmCodes.add(crmCode);
    }
    this.#person.learnFrom(all);
  }
}
