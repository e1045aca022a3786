/**
 * Completes thin events: requests the record from the CRM and puts the whole event into the inbox.
 * It has a queue of its own, so that a slow CRM delays nothing else.
 */
import type { Job } from "bullmq";
import { proxyOf, settingOf } from "../src/config.ts";
import { createCrmApi, type CrmApi } from "../src/crm/api-client.ts";
import { CRMS } from "../src/crm/connectors.ts";
import type { FetchedRecord } from "../src/crm/record-reader.ts";
import { splitSubject, type CrmEvent } from "../src/event/crm-event.ts";
import type { Part } from "../src/ops/shutdown.ts";
import {
  FETCH_QUEUE,
  fetchPauseMs,
  thinPointerIn,
  type TakenThinEvent,
  type ThinPointer,
} from "../src/state/thin-events.ts";
import { notedEvent } from "../src/sync/noted.ts";
import { confirmedDeletion, isDeletion, isOlder, timeOf, wholeEvent } from "./fetched-event.ts";
import { openQueueWorker } from "./queue-worker.ts";
import { rejectThinEvent } from "./reject-event.ts";
import { canFetch, missingSettings, readerOf } from "./request-fetch.ts";
import type { Runtime } from "./runtime.ts";

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

export function startFetch(runtime: Runtime): Part {
  const { config } = runtime;
  startFetchesAtZero(runtime);
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    proxy: proxyOf(config),
  });
  const fetching: Fetching = { runtime, api, pausedUntil: new Map(), silent: new Map() };
  const handleJob = (job: Job<ThinPointer>) => handle(fetching, job);
  const worker = openQueueWorker(runtime, FETCH_QUEUE, handleJob, {
    errorEvent: "fetch.worker_error",
    ...runtime.tracing.bullmq,
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

function startFetchesAtZero({ config, metrics }: Runtime): void {
  for (const { name: crm } of CRMS) {
    if (!canFetch(config, crm)) continue;
    for (const outcome of OUTCOMES) metrics.fetches.inc({ crm, outcome }, 0);
  }
}

interface Fetching {
  readonly runtime: Runtime;
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
  const { runtime, pausedUntil, silent } = fetching;
  const { inbox, log, metrics, rarely, recordName, thinEvents } = runtime;
  const pointer = thinPointerIn(job);
  if (pointer === undefined) {
    rarely.warn({}, "fetch.foreign_job");
    return;
  }
  const { crm } = pointer;
  const taken = await thinEvents.take(pointer);
  if (taken === undefined) return;
  if (taken.isDamaged) {
    await rejectThinEvent(runtime, taken, "not_fetched", DAMAGED_RULE);
    await thinEvents.finish(pointer, taken);
    return;
  }
  const event = JSON.parse(taken.event) as CrmEvent;
  const pauseMs = (pausedUntil.get(crm) ?? 0) - performance.now();
  if (pauseMs > 0) {
    const why = pauseReason(pauseMs);
    return retryOrGiveUp(runtime, job, pointer, taken, { kind: "throttled", why, pauseMs });
  }
  if (silent.get(crm)?.isTried === true) {
    const why = "it does not answer";
    return retryOrGiveUp(runtime, job, pointer, taken, {
      kind: "unavailable",
      why,
      pauseMs: TIMEOUT_MS,
    });
  }
  const fetched = await readAndTime(fetching, event, crm);
  metrics.fetches.inc({ crm, outcome: fetched.kind });
  switch (fetched.kind) {
    case "found":
      if (
        readerOf(crm)?.hasOneClock === true &&
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
      else if (runtime.clock.now() - Date.parse(timeOf(taken)) < NOT_SHOWN_YET_MS) {
        throw new TryLater("the CRM does not show it yet");
      } else {
        metrics.fetches.inc({ crm, outcome: "dropped" });
        log.warn({ crm, record: recordName(event.subject) }, "fetch.missing");
        noteMissing(runtime, event);
      }
      await thinEvents.finish(pointer, taken);
      return;
    case "throttled": {
      const { retryAfterMs } = fetched;
      // Only this CRM pauses: the others have quotas of their own.
      const until = performance.now() + retryAfterMs;
      pausedUntil.set(crm, Math.max(until, pausedUntil.get(crm) ?? 0));
      const { kind } = fetched;
      const why = pauseReason(retryAfterMs);
      await retryOrGiveUp(runtime, job, pointer, taken, { kind, why, pauseMs: retryAfterMs });
      return;
    }
    case "client_error":
    case "unavailable": {
      const { kind, reason: why } = fetched;
      await retryOrGiveUp(runtime, job, pointer, taken, { kind, why });
    }
  }
}

function noteMissing({ history }: Runtime, event: CrmEvent): void {
  const noted = notedEvent(event, { subject: event.subject });
  const step = { kind: "event", event: noted, result: "missing", coalesced: false } as const;
  history.note(noted, { ...step, ignored: undefined, problems: undefined });
}

const pauseReason = (ms: number): string =>
  `it asks for a pause, for ${Math.ceil(ms / 1000)} s more`;

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
async function readAndTime(
  fetching: Fetching,
  event: CrmEvent,
  crm: string,
): Promise<FetchedRecord> {
  const { silent } = fetching;
  const silence = silent.get(crm) ?? { isTried: false };
  silence.isTried = true;
  const begunAt = performance.now();
  try {
    const fetched = await readRecord(fetching, event, crm);
    const isSilent = fetched.kind === "unavailable" && performance.now() - begunAt > SILENCE_MS;
    if (isSilent) silent.set(crm, silent.get(crm) ?? silence);
    else silent.delete(crm);
    return fetched;
  } finally {
    silence.isTried = false;
  }
}

async function readRecord(
  { api, runtime: { config, mapping } }: Fetching,
  event: CrmEvent,
  crm: string,
): Promise<FetchedRecord> {
  const reader = readerOf(crm);
  const missing = reader && missingSettings(config, reader);
  if (reader === undefined || missing === undefined || missing.length > 0) {
    return { kind: "client_error", reason: `not configured: ${missing?.join(", ") ?? crm}` };
  }
  const { object, recordId } = splitSubject(event.subject);
  const setting = (name: string) => settingOf(config, name)?.() ?? "";
  return reader.fetchRecord({ ...api, setting }, object, recordId, mapping.reads);
}

interface Failure {
  readonly kind: "throttled" | "client_error" | "unavailable";
  readonly why: string;
  readonly pauseMs?: number;
}

async function retryOrGiveUp(
  runtime: Runtime,
  { timestamp }: Job,
  pointer: ThinPointer,
  taken: TakenThinEvent,
  { kind, pauseMs, why }: Failure,
): Promise<void> {
  const { config, metrics, rarely, thinEvents } = runtime;
  const { crm } = pointer;
  rarely.warn({ crm, outcome: kind, why }, "fetch.failed", crm);
  if (runtime.clock.now() - timestamp < config.RETRY_MAX_HOURS * HOUR_MS) {
    throw new TryLater(why, pauseMs);
  }
  const rule = `could not be fetched for ${config.RETRY_MAX_HOURS} hours (${why})`;
  await rejectThinEvent(runtime, taken, "not_fetched", rule);
  metrics.fetches.inc({ crm, outcome: "given_up" });
  await thinEvents.finish(pointer, taken);
}
