/** Reads what lies in Redis about any record, with what each piece names. Values are opened, not kept. */
import { subjectIn } from "../event/crm-event.ts";
import { jsonIn } from "../event/exact-json.ts";
import { redriveOf } from "../event/inbox.ts";
import { JOB_STATES, readJobs } from "../event/job-data.ts";
import type { RecordNames } from "../state/record-names.ts";
import { scanHash, scanSorted } from "../state/scan.ts";
import { DamagedValue } from "../state/sealing.ts";
import { thinPointerIn } from "../state/thin-events.ts";
import type { Stores } from "../status/stores.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { LANES } from "../event/lane.ts";
import type { EventNames } from "./name-event.ts";
import type { Named } from "./person.ts";

/** Values that are read at once: few, because their events may be large. */
const PAGE = 10;

/** A job that waits has its thin event beside it. */
const FETCH_STATES = ["active", "failed"] as const;

/**
 * `staged` and `verify`: kept under the crmCode itself, so they only tell further names. `history`: of
 * a record in the CRM; that of a relation is kept under its crmCode as well.
 */
export type Place = "inbox" | "fetch" | "dead" | "staged" | "verify" | "told" | "history";

export interface Piece extends Named {
  readonly place: Place;
  /** Of the job, the thin event, the dead letter or the outcome; the subject of a history. */
  readonly id: string;
}

/** Reads in the order in which a change moves: one that moves meanwhile is read twice, and never missed. */
export async function* readPieces(stores: Stores, names: EventNames): AsyncGenerator<Piece> {
  yield* readInbox(stores, names);
  yield* readFetches(stores);
  yield* readStaged(stores);
  yield* readDeadLetters(stores, names);
  for await (const { name, ...named } of stores.told.named()) {
    yield { place: "told", id: name, ...named };
  }
}

/** To which crmCodes these names lead, and the records that the histories of each tell. */
export async function readHistories(
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
  const lists = [...LANES.map(keys.unsynced), keys.heldTerminations, keys.verify];
  for (const list of lists) {
    for await (const waiting of scanSorted(redis, list, PAGE)) {
      const codes = waiting.map(([crmCode]) => crmCode);
      const events = await Promise.all(
        codes.map((crmCode) => unlessDamaged(staged.events([crmCode]), [])),
      );
      for (const [index, crmCode] of codes.entries()) {
        for (const event of events[index]?.flat() ?? []) {
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
