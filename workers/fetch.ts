/**
 * Completes thin events: requests the record from the CRM and puts the whole event into the inbox.
 * It has a queue of its own, so that a slow CRM delays nothing else.
 */
import { DelayedError, type Job } from "bullmq";
import { proxyOf } from "../src/base/config.ts";
import { createCrmApi, type CrmApi } from "../src/intake/crm/api-client.ts";
import { CRMS } from "../src/intake/crm/connectors.ts";
import { accessTo, canFetch, crmNamed, readWhole } from "../src/intake/crm/read-whole.ts";
import type { FetchedRecord, NotRead } from "../src/intake/crm/record-reader.ts";
import { ownersOf } from "../src/intake/crm/related.ts";
import { splitSubject, type CrmEvent } from "../src/core/event/crm-event.ts";
import type { Part } from "../src/base/shutdown.ts";
import {
  FETCH_QUEUE,
  fetchPauseMs,
  thinPointerIn,
  type TakenThinEvent,
  type ThinPointer,
} from "../src/core/state/thin-events.ts";
import { partsOf } from "../src/core/sync/mapped.ts";
import { notedEvent } from "../src/core/sync/step.ts";
import {
  confirmedDeletion,
  isDeletion,
  isOlder,
  ownersEvent,
  timeOf,
  wholeEvent,
} from "./request-fetch.ts";
import { openQueueWorker, type WorkerParts } from "./queue-worker.ts";
import { rejectThinEvent, type RejectParts } from "./reject-event.ts";
import type { Uses } from "./parts.ts";

/** Far below what any CRM allows (HubSpot 100 in 10 s, Salesforce 15,000 a day and more). */
const LIMITER = { max: 5, duration: 1000 };
const CONCURRENCY = 4;

const TIMEOUT_MS = 15_000;
const LOCK_MS = 60_000;

/** When a failed fetch took longer than this, ms, its CRM does not answer at present. */
const SILENCE_MS = 5000;

const STALLED_CHECK_MS = 30_000;

/**
 * Within this time after a change, ms, the CRM may have a record that its API does not show yet: the
 * transaction may be open, and an API may read from a copy.
 */
const NOT_SHOWN_YET_MS = 60_000;

/** How often a record that is older than its event is fetched again: its time may not tell the change. */
const OLDER_TRIES = 3;

const DAMAGED_RULE =
  "was not fetched: somebody has changed its event in Redis; a redrive fetches the record";

const MISSING_OWNER_RULE =
  "was not fetched: the CRM has no record of this id, or does not show it, although a record that belongs to it has changed; a redrive fetches it";

/** Parts of an object whose owners are asked for together, at least, if so many wait. */
const MOST_PARTS = 200;

/** The pause before the parts that are left, ms. */
const NEXT_PARTS_MS = 1000;

/** More owners of one batch of parts go behind live changes: those of a company with many employees. */
const MOST_LIVE = 100;

const HOUR_MS = 3_600_000;

const OUTCOMES = [
  "found",
  "missing",
  // The event has ended, since the CRM does not have its record.
  "dropped",
  "throttled",
  "client_error",
  "unavailable",
  "given_up",
] as const;

/** How long a fetch waits before it looks again whether the mapping is approved, ms. */
const UNAPPROVED_MS = 4000;

type FetchParts = RejectParts & WorkerParts & Uses<"mapping" | "mappingGate" | "thinEvents">;

export function startFetch(parts: FetchParts): Part {
  const { config } = parts;
  startFetchesAtZero(parts);
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    proxy: proxyOf(config),
  });
  const fetching: Fetching = { parts, api, pausedUntil: new Map(), silent: new Map() };
  const handleJob = async (job: Job<ThinPointer>, token?: string) => {
    // What is read with a record is said by the mapping.
    if (await parts.mappingGate.isOpen()) return handle(fetching, job);
    await job.moveToDelayed(Date.now() + UNAPPROVED_MS, token);
    throw new DelayedError();
  };
  const worker = openQueueWorker(parts, FETCH_QUEUE, handleJob, {
    errorEvent: "fetch.worker_error",
    ...parts.tracing.bullmq,
    concurrency: CONCURRENCY,
    limiter: LIMITER,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    settings: {
      backoffStrategy: (tries, _type, error) =>
        Math.max(
          fetchPauseMs(tries, Math.random),
          error instanceof TryLater ? error.pauseMs * (1 + Math.random() / 100) : 0,
        ),
    },
  });
  return {
    async close() {
      await worker.close();
      await api.close();
    },
  };
}

function startFetchesAtZero({ config, metrics }: FetchParts): void {
  for (const { name: crm } of CRMS) {
    if (!canFetch(config, crm)) continue;
    for (const outcome of OUTCOMES) metrics.fetches.inc({ crm, outcome }, 0);
  }
}

interface Fetching {
  readonly parts: FetchParts;
  readonly api: CrmApi;
  /** CRM → until when it has asked for a pause, by performance.now(). */
  readonly pausedUntil: Map<string, number>;
  /** CRM that did not answer its last request → whether a fetch tries it now. */
  readonly silent: Map<string, { isTried: boolean }>;
}

/** The job is tried again, after this pause at the earliest. */
class TryLater extends Error {
  readonly pauseMs: number;
  constructor(why: string, pauseMs = 0) {
    // In the form in which ThinEvents.firstFailure reads it.
    super(`the record could not be fetched (${why})`);
    this.pauseMs = pauseMs;
  }
}

async function handle(fetching: Fetching, job: Job<ThinPointer>): Promise<void> {
  const { rarely, thinEvents } = fetching.parts;
  const pointer = thinPointerIn(job);
  if (pointer === undefined) {
    rarely.warn({}, "fetch.foreign_job");
    return;
  }
  const pointers =
    pointer.role === "part" ? await thinEvents.parts(pointer, MOST_PARTS) : [pointer];
  const all: Waiting[] = [];
  for (const one of pointers) {
    const taken = await thinEvents.take(one);
    if (taken?.isDamaged === true) await reject(fetching, { pointer: one, taken }, DAMAGED_RULE);
    else if (taken !== undefined) all.push({ pointer: one, taken });
  }
  const [first] = all;
  if (first === undefined) return;
  const pauseMs = (fetching.pausedUntil.get(pointer.crm) ?? 0) - performance.now();
  const failure: NotRead | undefined =
    pauseMs > 0
      ? { kind: "throttled", retryAfterMs: pauseMs }
      : fetching.silent.get(pointer.crm)?.isTried === true
        ? { kind: "unavailable", reason: "it does not answer" }
        : undefined;
  if (failure !== undefined) return retryOrGiveUp(fetching, job, all, failure, TIMEOUT_MS);
  if (pointer.role === "part") return fetchOwners(fetching, job, pointer, all);
  return fetchOne(fetching, job, first);
}

async function fetchOne(fetching: Fetching, job: Job<ThinPointer>, one: Waiting): Promise<void> {
  const { inbox, log, metrics, recordName, thinEvents, clock } = fetching.parts;
  const { pointer, taken } = one;
  const { crm } = pointer;
  const event = JSON.parse(taken.event) as CrmEvent;
  const fetched = await readAndTime(fetching, crm, () => readRecord(fetching, event, crm));
  metrics.fetches.inc({ crm, outcome: fetched.kind });
  switch (fetched.kind) {
    case "found":
      if (
        crmNamed(crm)?.reader.hasOneClock === true &&
        // What belongs to a record has a time of its own.
        pointer.role !== "whole" &&
        isOlder(event, taken, crm, fetched) &&
        (await countOlder(job, pointer, taken)) <= OLDER_TRIES
      ) {
        throw new TryLater("the record is older than its event");
      }
      await inbox.push([wholeEvent(event, taken, fetched)]);
      await thinEvents.finish(pointer, taken);
      return;
    case "missing":
      // A deletion is an event of its own. A record that we may not see must not be terminated.
      if (isDeletion(event)) await inbox.push([confirmedDeletion(event, taken)]);
      else if (clock.now() - Date.parse(timeOf(taken)) < NOT_SHOWN_YET_MS) {
        throw new TryLater("the CRM does not show it yet");
      } else if (event.data?.of !== undefined) {
        return reject(fetching, one, MISSING_OWNER_RULE);
      } else {
        metrics.fetches.inc({ crm, outcome: "dropped" });
        log.warn({ crm, record: recordName(event.subject) }, "fetch.missing");
        noteMissing(fetching.parts, event);
      }
      await thinEvents.finish(pointer, taken);
      return;
    case "throttled":
    case "client_error":
    case "unavailable":
      return retryOrGiveUp(fetching, job, [one], fetched);
  }
}

/** Finds out to whom the parts belong that wait, and lets these owners be fetched. */
async function fetchOwners(
  fetching: Fetching,
  job: Job<ThinPointer>,
  pointer: ThinPointer,
  parts: readonly Waiting[],
): Promise<void> {
  const { clock, config, metrics, thinEvents } = fetching.parts;
  const { crm } = pointer;
  const { object } = splitSubject(pointer.subject);
  const found = await readAndTime(fetching, crm, () => readOwners(fetching, crm, object, parts));
  metrics.fetches.inc({ crm, outcome: found.kind });
  if (found.kind !== "found") return retryOrGiveUp(fetching, job, parts, found);
  const newest = new Map<string, Waiting>();
  const done: Waiting[] = [];
  for (const part of parts) {
    const { subject } = part.pointer;
    const now = found.owners.get(subject);
    const isDeleted = isDeletion(JSON.parse(part.taken.event) as CrmEvent);
    const isNew = clock.now() - Date.parse(timeOf(part.taken)) < NOT_SHOWN_YET_MS;
    // The CRM may not show it yet.
    if (now === undefined && isNew && !isDeleted) continue;
    done.push(part);
    for (const owner of [...(now ?? []), ...(await thinEvents.ownersOf(part.pointer))]) {
      const other = newest.get(owner);
      if (other === undefined || other.taken.order < part.taken.order) newest.set(owner, part);
    }
  }
  for (const [owner, { taken }] of newest) {
    const lane = taken.isLive && newest.size <= MOST_LIVE ? "live" : "bulk";
    const event = JSON.stringify(ownersEvent(JSON.parse(taken.event) as CrmEvent, crm, owner));
    const whole = { crm, subject: owner, role: "whole" as const };
    await thinEvents.put(whole, taken.order, event, lane, config.RELATED_WAIT_MS);
  }
  for (const { pointer: part, taken } of done) {
    await thinEvents.noteOwners(part, found.owners.get(part.subject) ?? [], true);
    await thinEvents.finish(part, taken);
  }
  const isAll = parts.length < MOST_PARTS && done.length === parts.length;
  if (!isAll) await thinEvents.request(pointer, "live", NEXT_PARTS_MS);
}

interface Waiting {
  readonly pointer: ThinPointer;
  readonly taken: TakenThinEvent;
}

async function reject(
  { parts }: Fetching,
  { pointer, taken }: Waiting,
  rule: string,
): Promise<void> {
  await rejectThinEvent(parts, taken, "not_fetched", rule);
  await parts.thinEvents.finish(pointer, taken);
}

function noteMissing({ history }: FetchParts, event: CrmEvent): void {
  const noted = notedEvent(event, { subject: event.subject });
  const step = { kind: "event", event: noted, result: "missing", coalesced: false } as const;
  void history.note(noted, { ...step, ignored: undefined, problems: undefined });
}

/** @returns how often the record was older than this event: tries that failed otherwise do not count. */
async function countOlder(
  job: Job<ThinPointer>,
  pointer: ThinPointer,
  { order }: TakenThinEvent,
): Promise<number> {
  const { older } = pointer;
  const times = older?.order === order ? older.times + 1 : 1;
  await job.updateData({ ...pointer, older: { order, times } });
  return times;
}

/** While a CRM does not answer, only one fetch waits for it: the other places are for the other CRMs. */
async function readAndTime<Found extends { readonly kind: "found" | "missing" }>(
  { silent }: Fetching,
  crm: string,
  read: () => Promise<Found | NotRead>,
): Promise<Found | NotRead> {
  const silence = silent.get(crm) ?? { isTried: false };
  silence.isTried = true;
  const begunAt = performance.now();
  try {
    const fetched = await read();
    const isSilent = fetched.kind === "unavailable" && performance.now() - begunAt > SILENCE_MS;
    if (isSilent) silent.set(crm, silent.get(crm) ?? silence);
    else silent.delete(crm);
    return fetched;
  } finally {
    silence.isTried = false;
  }
}

/** The record, with those that belong to it. */
async function readRecord(
  { api, parts: { config, mapping, thinEvents } }: Fetching,
  { subject }: CrmEvent,
  crm: string,
): Promise<FetchedRecord> {
  const parts: string[] = [];
  const notePart = (part: string) => void parts.push(part);
  const fetched = await readWhole(api, config, crm, subject, { mapping, notePart });
  for (const part of parts) await thinEvents.noteOwners({ crm, subject: part }, [subject]);
  return fetched;
}

/** By the subject of each part that the CRM has: the subjects of its owners. */
async function readOwners(
  fetching: Fetching,
  crm: string,
  object: string,
  parts: readonly Waiting[],
): Promise<{ kind: "found"; owners: ReadonlyMap<string, readonly string[]> } | NotRead> {
  const access = accessTo(fetching.api, fetching.parts.config, crm);
  if ("kind" in access) return access;
  const ids = parts.map(({ pointer }) => splitSubject(pointer.subject).recordId);
  const owners = new Map<string, string[]>();
  for (const relation of partsOf(fetching.parts.mapping.relations, object)) {
    const found = await ownersOf(access.api, crm, ids, relation);
    if ("kind" in found) return found;
    for (const [id, own] of found) {
      const subjects = own.map((owner) => `${relation.owners[0] ?? ""}/${owner}`);
      owners.set(`${object}/${id}`, [...(owners.get(`${object}/${id}`) ?? []), ...subjects]);
    }
  }
  return { kind: "found", owners };
}

async function retryOrGiveUp(
  fetching: Fetching,
  { timestamp }: Job,
  all: readonly Waiting[],
  failure: NotRead,
  leastMs = 0,
): Promise<void> {
  const { pausedUntil, parts } = fetching;
  const { config, metrics, rarely } = parts;
  const crm = all[0]?.pointer.crm ?? "";
  const pauseMs = failure.retryAfterMs ?? leastMs;
  if (failure.retryAfterMs !== undefined) {
    // Only this CRM pauses: the others have quotas of their own.
    const until = performance.now() + pauseMs;
    pausedUntil.set(crm, Math.max(until, pausedUntil.get(crm) ?? 0));
  }
  const why =
    failure.kind === "throttled"
      ? `it asks for a pause, for ${Math.ceil(pauseMs / 1000)} s more`
      : failure.reason;
  rarely.warn({ crm, outcome: failure.kind, why }, "fetch.failed", crm);
  if (parts.clock.now() - timestamp < config.RETRY_MAX_HOURS * HOUR_MS) {
    throw new TryLater(why, pauseMs);
  }
  for (const one of all) {
    await reject(
      fetching,
      one,
      `could not be fetched for ${config.RETRY_MAX_HOURS} hours (${why})`,
    );
    metrics.fetches.inc({ crm, outcome: "given_up" });
  }
}
