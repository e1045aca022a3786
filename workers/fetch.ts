/**
 * Completes thin events: requests the record from the CRM and puts the whole event into the inbox.
 * It has a queue of its own, so that a slow CRM delays nothing else.
 */
import { Worker, type Job } from "bullmq";
import { settingOf, type Config } from "../src/config.ts";
import { createCrmApi, type CrmApi } from "../src/crm/api-client.ts";
import { CONNECTORS } from "../src/crm/connectors.ts";
import { isReadable, type FetchedRecord, type RecordReader } from "../src/crm/record-reader.ts";
import { splitSubject, type CrmEvent } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-key.ts";
import {
  FETCH_QUEUE,
  fetchPauseMs,
  type TakenThinEvent,
  type ThinPointer,
} from "../src/state/thin-events.ts";
import { createDeadLetter } from "../src/sync/dead-letter.ts";
import type { Problem } from "../src/sync/problem.ts";
import { reportOutcome } from "./report-outcome.ts";
import { checkStalled } from "./check-stalled.ts";
import { DRAIN_DELAY_S } from "./keep-rest.ts";
import type { Runtime } from "./runtime.ts";
import { storeDeadLetter } from "./store-dead-letter.ts";

/** Far below what any CRM allows (HubSpot 100 in 10 s, Salesforce 15,000 a day and more). */
const LIMITER = { max: 5, duration: 1000 };
const CONCURRENCY = 4;

const TIMEOUT_MS = 15_000;
const LOCK_MS = 60_000;

/** How often jobs of dead workers are looked for, ms. */
const STALLED_CHECK_MS = 30_000;

const MAX_STALLED = 5;
const HOUR_MS = 3_600_000;

const OUTCOMES = [
  "found",
  "missing",
  "throttled",
  "client_error",
  "unavailable",
  "given_up",
] as const;

export interface Fetch {
  close(): Promise<void>;
}

/** Whether records of a CRM can be fetched with the present configuration. */
export function canFetch(config: Config, crm: string): boolean {
  const reader = readerOf(crm);
  return reader !== undefined && missingSettings(config, reader).length === 0;
}

/** Requests an event's record. @returns why it cannot be fetched. */
export async function fetchRecord(
  runtime: Runtime,
  event: CrmEvent,
  crm: string,
  order: string,
): Promise<Problem | undefined> {
  const reader = readerOf(crm);
  const kind = "an event without its record";
  if (reader === undefined) {
    const known = CONNECTORS.filter((one) => one.reader !== undefined).map(({ name }) => name);
    return { field: "data.fetch", rule: `must be one of ${known.join(", ")}`, kind };
  }
  const { object, recordId } = splitSubject(event.subject);
  if (!isReadable(object) || !isReadable(recordId)) {
    const rule = `must be <object>/<recordId> of letters, digits, _ and -, to be fetched from ${crm}`;
    return { field: "subject", rule, kind: "another text" };
  }
  const missing = missingSettings(runtime.config, reader);
  if (missing.length > 0) {
    const rule = `is required; to have it fetched from the CRM, set ${missing.join(", ")}`;
    return { field: "data.record", rule, kind };
  }
  const { subject } = event;
  const pointer = { crm, subject, ...(isDeletion(event) && { deletion: true as const }) };
  await runtime.thinEvents.put(pointer, order, JSON.stringify(event));
  return undefined;
}

export function startFetch(runtime: Runtime): Fetch {
  const { config, log, metrics, throttle } = runtime;
  startFetchesAtZero(runtime);
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    proxy: {
      httpProxy: config.HTTP_PROXY,
      httpsProxy: config.HTTPS_PROXY,
      noProxy: config.NO_PROXY,
    },
  });
  const worker = new Worker<ThinPointer>(FETCH_QUEUE, (job) => handle(runtime, api, job), {
    ...runtime.tracing.bullmq,
    connection: runtime.redis,
    prefix: config.QUEUE_PREFIX,
    concurrency: CONCURRENCY,
    limiter: LIMITER,
    lockDuration: LOCK_MS,
    maxStalledCount: MAX_STALLED,
    stalledInterval: STALLED_CHECK_MS,
    skipStalledCheck: true,
    drainDelay: DRAIN_DELAY_S,
    settings: { backoffStrategy: (tries) => fetchPauseMs(tries, Math.random) },
  });
  worker.on("error", (error) => {
    throttle("fetch.error", (suppressed) =>
      log.warn({ err: error, suppressed }, "fetch.worker_error"),
    );
  });
  worker.on("stalled", () => metrics.stalled.inc());
  const checks = checkStalled(runtime, worker, STALLED_CHECK_MS);
  return {
    async close() {
      await checks.close();
      await worker.close();
      await api.close();
    },
  };
}

function startFetchesAtZero({ metrics }: Runtime): void {
  for (const { name: crm, reader } of CONNECTORS) {
    if (reader === undefined) continue;
    for (const outcome of OUTCOMES) metrics.fetches.inc({ crm, outcome }, 0);
  }
}

async function handle(runtime: Runtime, api: CrmApi, job: Job<ThinPointer>): Promise<void> {
  runtime.rest.wake();
  const { inbox, log, metrics, thinEvents } = runtime;
  const { crm } = job.data;
  const taken = await thinEvents.take(job.data);
  if (taken === undefined) return;
  const event = JSON.parse(taken.event) as CrmEvent;
  const fetched = await readRecord(runtime, api, event, crm);
  metrics.fetches.inc({ crm, outcome: fetched.kind });
  switch (fetched.kind) {
    case "found":
      await inbox.push([wholeEvent(event, taken, fetched)]);
      await thinEvents.finish(job.data, taken);
      return;
    case "missing":
      // A deletion is an event of its own. A record that we may not see must not be terminated.
      if (isDeletion(event)) await inbox.push([confirmedDeletion(event, taken)]);
      else log.warn({ crm }, "fetch.missing");
      await thinEvents.finish(job.data, taken);
      return;
    case "throttled":
      await thinEvents.queue.rateLimit(fetched.retryAfterMs);
      throw Worker.RateLimitError();
    case "client_error":
    case "unavailable":
      await retryOrGiveUp(runtime, job, event, taken, fetched);
  }
}

async function readRecord(
  { config, mapping }: Runtime,
  api: CrmApi,
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

async function retryOrGiveUp(
  runtime: Runtime,
  job: Job<ThinPointer>,
  event: CrmEvent,
  taken: TakenThinEvent,
  { kind, reason: why }: Extract<FetchedRecord, { kind: "client_error" | "unavailable" }>,
): Promise<void> {
  const { config, log, metrics, thinEvents, throttle } = runtime;
  const { crm } = job.data;
  throttle(`fetch.${crm}`, (suppressed) =>
    log.warn({ crm, outcome: kind, why, suppressed }, "fetch.failed"),
  );
  if (Date.now() - job.timestamp < config.RETRY_MAX_HOURS * HOUR_MS) {
    throw new Error(`the record could not be fetched (${why})`);
  }
  const reason = "not_fetched";
  const rule = `could not be fetched for ${config.RETRY_MAX_HOURS} hours (${why})`;
  const problems = [{ field: "data.record", rule, kind: "an event without its record" }];
  const { source } = event;
  await storeDeadLetter(
    runtime,
    createDeadLetter(
      { eventKey: eventKey(event) },
      { reason, problems, event: taken.event, source, order: taken.order, at: Date.now() },
    ),
  );
  reportOutcome(runtime, { outcome: "rejected", reason, problems });
  metrics.fetches.inc({ crm, outcome: "given_up" });
  await thinEvents.finish(job.data, taken);
}

/** Its sender may be wrong about a deletion: a copy of an earlier request may come at any time. */
const isDeletion = ({ type }: CrmEvent): boolean => type === "crm.record.deleted";

/** The deletion of a record that the CRM does not have any more. */
function confirmedDeletion(event: CrmEvent, { order }: TakenThinEvent) {
  const { fetch: _, ...data } = event.data ?? {};
  const [time = ""] = order.split("\t");
  return { ...event, id: fetchedId(event), ...(time !== "" && { time }), data };
}

/**
 * The event as if the CRM had sent the record. Its time is the later of the event's own and the
 * record's last change: a fetched record is at least as new as the event that asked for it.
 */
function wholeEvent(
  event: CrmEvent,
  taken: TakenThinEvent,
  fetched: Extract<FetchedRecord, { kind: "found" }>,
) {
  const { fetch: _, ...data } = event.data ?? {};
  const [requestedAt = ""] = taken.order.split("\t");
  const time = [requestedAt, fetched.modifiedAt]
    .filter((at) => at !== undefined && at !== "")
    .toSorted((a, b) => Date.parse(a ?? "") - Date.parse(b ?? ""))
    .at(-1);
  return {
    ...event,
    // A record that the CRM still has was not deleted, or exists again.
    ...(isDeletion(event) && { type: "crm.record.updated" as const }),
    id: fetchedId(event),
    ...(time !== undefined && { time }),
    data: { ...data, record: fetched.record },
  };
}

const fetchedId = ({ id }: CrmEvent): string =>
  `${id}+record-${Date.now().toString(36)}`.slice(-512);

const readerOf = (crm: string): RecordReader | undefined =>
  CONNECTORS.find(({ name }) => name === crm)?.reader;

/** Variables that reading from this CRM needs and that have no value. */
const missingSettings = (config: Config, reader: RecordReader): string[] =>
  reader.needs.filter((name) => settingOf(config, name) === undefined);
