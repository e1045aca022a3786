/** Finds what Redis holds about one person. */
import { isObject } from "../../core/event/problem.ts";
import { RecordNames } from "../../core/state/record-names.ts";
import type { Stores } from "../../operate/status/stores.ts";
import {
  subjectIn,
  MAX_DEPTH,
  parseEvent,
  splitSubject,
  isDeeperThan,
} from "../../core/event/crm-event.ts";
import { jsonIn } from "../../core/event/exact-json.ts";
import { redriveOf } from "../../core/event/inbox.ts";
import { JOB_STATES, readJobs } from "../../core/event/job-data.ts";
import { scanHash, scanSorted } from "../../core/state/scan.ts";
import { DamagedValue } from "../../core/state/sealing.ts";
import { thinPointerIn } from "../../core/state/thin-events.ts";
import { deadLetterId } from "../../core/sync/dead-letter.ts";
import { LANES } from "../../core/event/lane.ts";
import { isSent } from "../../core/sync/known.ts";
import { forget } from "../../core/sync/person.ts";
import { storeRow, unchanged, type ReadRecord } from "../../core/state/record-store.ts";
import type { Call } from "../../core/state/store.ts";
import { mapEventRecord } from "../../intake/mapping/map-event-record.ts";
import { recordIds } from "../../intake/mapping/record-ids.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";

/** By what the traces of one person are known: crmCodes, and records of the CRM. Pure. */

/** What one trace names. */
interface Named {
  readonly crmCode?: string | undefined;
  /** `<object>/<recordId>` */
  readonly subject?: string | undefined;
  /** Records that were merged into this one: they are named, the trace is not about them. */
  readonly merged?: readonly string[] | undefined;
}

/**
 * Only one step leads from a name to the next: to the crmCodes of a given record, and to the records
 * of these crmCodes. A record that has two crmCodes, or a crmCode that two records share, must not
 * lead to another person.
 */
class Person {
  readonly #given: ReadonlySet<string>;
  readonly crmCodes: Set<string>;
  readonly subjects: Set<string>;

  /** @param names each a crmCode or a subject. */
  constructor(names: readonly string[]) {
    this.#given = new Set(names);
    this.crmCodes = new Set(names);
    this.subjects = new Set(names);
  }

  learnFrom(all: readonly Named[]): void {
    for (const { crmCode, subject } of all) {
      if (crmCode !== undefined && subject !== undefined && this.#given.has(subject))
        this.crmCodes.add(crmCode);
    }
    for (const { crmCode, subject } of all) {
      if (crmCode !== undefined && subject !== undefined && this.crmCodes.has(crmCode))
        this.subjects.add(subject);
    }
  }

  isIn({ crmCode, subject }: Named): boolean {
    if (crmCode !== undefined) return this.crmCodes.has(crmCode);
    return subject !== undefined && this.subjects.has(subject);
  }

  /** Whether the trace is of another crmCode, and names one of the records all the same. */
  isRelated(named: Named): boolean {
    const { subject, merged = [] } = named;
    const names = subject === undefined ? merged : [subject, ...merged];
    return !this.isIn(named) && names.some((name) => this.subjects.has(name));
  }
}

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

type TraceKind = keyof typeof TRACES;
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

/** Values that are read at once: few, because their events may be large. */
const PAGE = 10;

/** A job that waits has its thin event beside it. */
const FETCH_STATES = ["active", "failed"] as const;

/**
 * `staged` and `verify`: kept under the crmCode itself, so they only tell further names. `history`: of
 * a record in the CRM; that of a relation is kept under its crmCode as well.
 */
type Place = "inbox" | "fetch" | "dead" | "staged" | "verify" | "told" | "history";

export interface Piece extends Named {
  readonly place: Place;
  /** Of the job, the thin event, the dead letter or the outcome; the subject of a history. */
  readonly id: string;
}

/** Reads in the order in which a change moves: one that moves meanwhile is read twice, and never missed. */
async function* readPieces(stores: Stores, names: EventNames): AsyncGenerator<Piece> {
  yield* readInbox(stores, names);
  yield* readFetches(stores);
  yield* readStaged(stores);
  yield* readDeadLetters(stores, names);
  for await (const { name, ...named } of stores.told.named()) {
    yield { place: "told", id: name, ...named };
  }
}

/** To which crmCodes these names lead, and the records that the histories of each tell. */
async function readHistories(
  { history }: Stores,
  lookup: RecordNames,
  names: Iterable<string>,
): Promise<Named[]> {
  const told: Named[] = [];
  for (const name of names) {
    const { crmCodes, subject } = await lookup.find(name);
    told.push(...crmCodes.map((crmCode) => ({ crmCode, subject })));
    for (const crmCode of crmCodes) {
      for (const step of await history.read({ crmCode })) {
        if (step.kind === "event") told.push({ crmCode, subject: step.event.subject });
      }
    }
  }
  return told;
}

async function* readInbox({ inbox }: Stores, names: EventNames): AsyncGenerator<Piece> {
  for await (const job of readJobs(inbox.queue, JOB_STATES)) {
    const letter = redriveOf(job);
    const named =
      letter === undefined
        ? await names.of(await unlessDamaged(inbox.read(job), undefined))
        : nameOfLetter(letter);
    yield { place: "inbox", id: job.id ?? "", ...named };
  }
}

/** What somebody has damaged names nothing, and must not keep others from being erased. */
const unlessDamaged = <Value>(opened: Promise<Value>, otherwise: Value): Promise<Value> =>
  opened.catch((error: unknown) => {
    if (error instanceof DamagedValue) return otherwise;
    throw error;
  });

/** What the id of a dead letter says, as a redrive has it. */
function nameOfLetter(id: string): Named {
  const prefix = deadLetterId("");
  return id.startsWith(prefix) ? { crmCode: id.slice(prefix.length) } : {};
}

/** A thin event and its job have the same name: the CRM, a bar, the subject. */
async function* readFetches({ keys, redis, thinEvents }: Stores): AsyncGenerator<Piece> {
  for await (const fields of scanHash(redis, keys.thinEvents, PAGE)) {
    for (const [field] of fields) {
      yield { place: "fetch", id: field, subject: field.slice(field.indexOf("|") + 1) };
    }
  }
  for await (const job of readJobs(thinEvents.queue, FETCH_STATES)) {
    const pointer = thinPointerIn(job);
    if (pointer === undefined) continue;
    yield { place: "fetch", id: job.deduplicationId ?? "", subject: pointer.subject };
  }
}

async function* readStaged({ keys, redis, staged }: Stores): AsyncGenerator<Piece> {
  const lists = [...LANES.map(keys.line), keys.later, keys.heldTerminations];
  for (const list of lists) {
    for await (const waiting of scanSorted(redis, list, PAGE)) {
      const codes = waiting.map(([crmCode]) => crmCode);
      const events = await Promise.all(
        codes.map((crmCode) => unlessDamaged(staged.events(crmCode), [])),
      );
      for (const [index, crmCode] of codes.entries()) {
        for (const event of events[index] ?? []) {
          yield { place: "staged", id: crmCode, crmCode, subject: subjectIn(jsonIn(event)) };
        }
      }
    }
  }
}

async function* readDeadLetters({ deadLetters }: Stores, names: EventNames): AsyncGenerator<Piece> {
  for await (const { id, crmCode, event } of deadLetters.all()) {
    const named = await names.of(jsonIn(event) ?? event);
    // A merge makes one letter for each of its records.
    const own = crmCode === undefined ? named : { ...named, crmCode };
    yield { place: "dead", id, ...own };
  }
}

/** Entries read in one round trip. */
const SUBJECTS_AT_ONCE = 1000;

/** A day longer than ids of events are surely remembered: then no sender sends an older event again. */
const ORDER_KEPT_S = 8 * 86_400;

type RecordTrace = "staged" | "ledger" | "verify" | "tries" | "history";

interface RecordTraces {
  readonly found: readonly RecordTrace[];
  /** A request of the record is under way; nothing is erased until it has ended. */
  readonly isHeld: boolean;
}

type Needed = Pick<Stores, "keys" | "records" | "redis">;

async function lookAtRecord(stores: Needed, crmCode: string): Promise<RecordTrace[]> {
  const { keys, records, redis } = stores;
  const read = await records.read(crmCode);
  const hasHistory =
    (await redis.exists(keys.history("crmCode", crmCode))) === 1 ||
    (await subjectsOf(stores, crmCode)).length > 0 ||
    (await differencesOf(stores, crmCode)).length > 0;
  return tracesIn(read, hasHistory);
}

/** In one step, so that no worker can take the record in between. @returns what it has erased. */
export async function eraseRecord(stores: Needed, crmCode: string): Promise<RecordTraces> {
  const { keys, records } = stores;
  const history = keys.history("crmCode", crmCode);
  const subjects = await subjectsOf(stores, crmCode);
  const differences = await differencesOf(stores, crmCode);
  const more: Call[] = [["EXISTS", history]];
  return records.change<RecordTraces>(crmCode, more, (read) => {
    const forgotten = forget(read, read);
    if (forgotten.kind === "held") return unchanged({ found: [], isHeld: true });
    const { isAbsent, row } = forgotten;
    const hasHistory = read.more[0] === 1 || subjects.length + differences.length > 0;
    const found = tracesIn(read, hasHistory);
    const kept: Call[] =
      row === undefined || found.length === 0
        ? []
        : [
            [
              "SET",
              keys.erased(crmCode),
              storeRow(row, read.epoch),
              ...(isAbsent ? ["EX", ORDER_KEPT_S] : []),
            ],
          ];
    return {
      record: undefined,
      outcome: { found, isHeld: false },
      checks: records.checksOf(read),
      calls: [
        ["DEL", keys.staged(crmCode)],
        ["HDEL", keys.ledger, crmCode],
        ["DEL", history],
        ...differences.map((key) => ["HDEL", key, crmCode] as const),
        ...(subjects.length === 0 ? [] : [["HDEL", keys.subjects, ...subjects] as const]),
        ["ZREM", keys.terminations, crmCode],
        ["HDEL", keys.lost, crmCode],
        ...records.placeCalls(crmCode, read.staged, undefined, read.now),
        // Last: a full Redis lets a script go on that has deleted something.
        ...kept,
      ],
    };
  });
}

/** Where a difference of the record is kept (differences.ts). */
async function differencesOf({ keys, redis }: Needed, crmCode: string): Promise<string[]> {
  const found: string[] = [];
  for (const kind of await redis.hkeys(keys.comparedExports)) {
    const key = keys.differences(kind);
    if ((await redis.hexists(key, crmCode)) === 1) found.push(key);
  }
  return found;
}

/** The records of the CRM, as hashes, of which Redis knows that they led to this crmCode. */
async function subjectsOf({ keys, redis }: Needed, crmCode: string): Promise<string[]> {
  const found: string[] = [];
  for await (const page of scanHash(redis, keys.subjects, SUBJECTS_AT_ONCE)) {
    found.push(...page.filter(([, code]) => code === crmCode).map(([subject]) => subject));
  }
  return found;
}

function tracesIn({ rowText, staged }: ReadRecord, hasHistory: boolean): RecordTrace[] {
  const isProof = staged !== undefined && isSent(staged);
  return [
    ...(staged !== undefined && !isProof ? (["staged"] as const) : []),
    ...(rowText === "" ? [] : (["ledger"] as const)),
    ...(isProof ? (["verify"] as const) : []),
    ...(staged?.tries?.why === undefined ? [] : (["tries"] as const)),
    ...(hasHistory ? (["history"] as const) : []),
  ];
}

/** Names what events are about, with the crmCode that the mapping makes of their records. */
export const eventNames = (mapping: Mapping, lists: TenantLists) => ({
  /** @param value may be no valid event: then its subject counts, and the crmCode of its record. */
  async of(value: unknown): Promise<Named> {
    if (isDeeperThan(MAX_DEPTH, value)) return { subject: subjectIn(value) };
    const parsed = parseEvent(value, Number.POSITIVE_INFINITY, recordIds(mapping));
    const { type, source, subject, data } = parsed.ok ? parsed.event : partsOf(value);
    if (!parsed.ok && data?.record === undefined) return { subject };
    const name = subject ?? "";
    const context = { type, source, subject: name, ...splitSubject(name) };
    const mapped = await mapEventRecord(mapping, context, data?.record, lists);
    return { subject, crmCode: mapped.crmCode, merged: data?.merged };
  },

  /** The crmCode of a record, where the mapping can make it from the subject alone. */
  async crmCodeOf(subject: string): Promise<string | undefined> {
    const context = { type: "crm.record.deleted", source: "", subject, ...splitSubject(subject) };
    const mapped = await mapping.map(context, undefined, lists);
    return mapped.crmCode;
  },
});

type EventNames = ReturnType<typeof eventNames>;

/** What can be used of something that is no valid event. */
function partsOf(value: unknown) {
  const { type, source, data } = isObject(value) ? value : {};
  const record = isObject(data) && isObject(data["record"]) ? data["record"] : undefined;
  return {
    type: typeof type === "string" ? type : "",
    source: typeof source === "string" ? source : "",
    subject: subjectIn(value),
    data: { record, merged: undefined },
  };
}
