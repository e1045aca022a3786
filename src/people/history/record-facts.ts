/** Reads what is known of one record now, and the steps that led there. */
import { eventKey } from "../../core/event/event-order.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import { scanHash } from "../../core/state/scan.ts";
import { readAgainAt, timeOfOrder, waitingIn } from "../../core/sync/known.ts";
import { triesIn } from "../../core/sync/run.ts";
import type { HeldWhy } from "../../core/sync/record.ts";
import type { PresentWhens } from "../../intake/mapping/whens.ts";
import type { Readings } from "../../operate/status/readings.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { deadLetterId } from "../../core/sync/dead-letter.ts";
import type { Lane } from "../../core/event/lane.ts";
import type { LedgerRow } from "../../core/sync/ledger-row.ts";
import type { EventStep, Step } from "../../core/sync/step.ts";
import { inWords } from "../../core/sync/service-reply.ts";

/** What all records share. */
export interface SharedFacts {
  readonly readings: Readings;
  /** Since when no step is missing, ms; undefined when no history is kept. */
  readonly historySince: number | undefined;
  readonly keptMs: number;
  /** Of the present mapping. */
  readonly whens: PresentWhens;
}

/** A state that waits to be sent. Times in ms. */
export interface WaitingState {
  /** Of its newest event. */
  readonly order: string;
  readonly lane: Lane;
  /** When its newest change happened in the CRM. */
  readonly time: number;
  /** Since when it is held for a person. */
  readonly heldSince: number | undefined;
  readonly heldWhy: HeldWhy | undefined;
  /** Fields that it would empty. */
  readonly heldFields: readonly string[];
  readonly tries: number;
  /** Until when a worker has taken it. */
  readonly takenUntil: number | undefined;
  /** When it may be sent; undefined: now. */
  readonly dueAt: number | undefined;
  /** Why its last try failed, as the client names it. */
  readonly failure: string | undefined;
  /** Requests that are sent before it. */
  readonly ahead: Readonly<Record<Lane, number>>;
}

/** Name, fields, place and remedy of a dead letter; never its event. */
export type Letter = Pick<
  StoredDeadLetter,
  "id" | "reason" | "problems" | "at" | "crmCode" | "order" | "newest"
>;

export interface RecordFacts {
  readonly name: string;
  readonly crmCode: string | undefined;
  readonly row: LedgerRow | undefined;
  readonly waiting: WaitingState | undefined;
  /** When a change that is on the service is read once more, ms. */
  readonly readAt: number | undefined;
  readonly letter: Letter | undefined;
  /** The CRM from which the record must be fetched first. */
  readonly fetchFrom: string | undefined;
  /** Oldest first. */
  readonly steps: readonly Step[];
  /** `crmsync forget` has erased it, and it may be on the service. */
  readonly isErased: boolean;
}

interface Asked {
  readonly name: string;
  readonly crmCode: string | undefined;
  readonly subject: string | undefined;
  /** Of a record of which no crmCode is known: where its event became a dead letter. */
  readonly letterId: string | undefined;
}

export async function readFacts(
  stores: Stores,
  { name, crmCode, subject, letterId }: Asked,
  { readings, keptMs }: SharedFacts,
): Promise<RecordFacts> {
  const { history, ledger } = stores;
  const [row, staged, ofCode, ofSubject] = await Promise.all([
    crmCode === undefined ? undefined : ledger.row(crmCode),
    crmCode === undefined ? undefined : readStaged(stores, crmCode),
    crmCode === undefined ? [] : history.read({ crmCode }),
    subject === undefined ? [] : history.read({ subject }),
  ]);
  const steps = [...ofCode, ...ofSubject]
    .filter(({ at }) => at > readings.now - keptMs)
    .sort((a, b) => a.at - b.at);
  const letter =
    letterId === undefined
      ? await findLetter(stores, crmCode, steps)
      : await stores.deadLetters.find(letterId);
  // Without a history, only the search tells.
  const isFetched =
    keptMs === 0 || steps.some((step) => step.kind === "event" && step.result === "fetching");
  const fetchFrom =
    subject === undefined || !isFetched ? undefined : await findFetch(stores, subject);
  return {
    name,
    crmCode,
    row,
    waiting: staged?.waiting,
    readAt: staged?.readAt,
    letter,
    fetchFrom,
    steps,
    isErased: (await stores.redis.exists(stores.keys.erased(crmCode ?? name))) === 1,
  };
}

async function readStaged(
  { line, records }: Stores,
  crmCode: string,
): Promise<Pick<RecordFacts, "readAt" | "waiting">> {
  const { now, staged: read } = await records.read(crmCode);
  const staged = waitingIn(read);
  if (staged === undefined) return { waiting: undefined, readAt: readAgainAt(read) };
  const { due = 0, held, lane, status, taken, tries } = staged;
  const isTaken = taken !== undefined && taken.until > now;
  const waiting = {
    order: status.order,
    lane,
    time: timeOfOrder(status.order),
    heldSince: held?.at,
    heldFields: held?.fields ?? [],
    heldWhy: held?.why,
    tries: triesIn(tries),
    takenUntil: isTaken ? taken.until : undefined,
    dueAt: due > now ? due : undefined,
    failure: tries?.why && inWords(tries.why),
    ahead: await line.aheadOf(crmCode, lane),
  };
  return { waiting, readAt: undefined };
}

/** The letter of the relation, or that of the newest event, if no relation was known for it. */
async function findLetter(
  { deadLetters }: Stores,
  crmCode: string | undefined,
  steps: readonly Step[],
): Promise<Letter | undefined> {
  if (crmCode !== undefined) {
    const letter = await deadLetters.find(deadLetterId(crmCode));
    if (letter !== undefined) return letter;
  }
  const last = steps.findLast((step): step is Step & EventStep => step.kind === "event");
  if (last?.result !== "rejected") return undefined;
  const id = `e:${eventKey(last.event)}`;
  return (await deadLetters.find(id)) ?? (await deadLetters.find(`${id}|${last.event.subject}`));
}

async function findFetch({ keys, redis }: Stores, subject: string): Promise<string | undefined> {
  for await (const page of scanHash(redis, keys.thinEvents, 500)) {
    const [found] = page.find(([field]) => field.endsWith(`|${subject}`)) ?? [];
    if (found !== undefined)
      return found.slice(0, -subject.length - 1).replace(/ (?:deletion|part|whole)$/, "");
  }
  return undefined;
}
