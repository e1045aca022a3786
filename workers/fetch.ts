/**
 * Completes events that came without their record: asks the CRM for it, and puts the whole event
 * into the inbox. Its own queue keeps a CRM's troubles away from everything else.
 */
import { Worker, type Job } from "bullmq";
import { settingOf, type Config } from "../src/config.ts";
import { createCrmApi } from "../src/crm/api-client.ts";
import type { CrmEvent } from "../src/event/crm-event.ts";
import { splitSubject } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-key.ts";
import { CONNECTORS } from "../src/http/webhooks.ts";
import type { FetchedRecord, RecordReader } from "../src/crm/connector.ts";
import type { Problem } from "../src/sync/problem.ts";
import {
  FETCH_QUEUE,
  fetchPause,
  type TakenThin,
  type ThinPointer,
} from "../src/state/thin-events.ts";
import { deadIdOfEvent } from "../src/sync/dead-letter.ts";
import type { Runtime } from "./runtime.ts";

/** Small beside what any CRM allows (HubSpot 100 in 10 s, Salesforce 15,000 a day and more). */
const LIMITER = { max: 5, duration: 1000 };
const CONCURRENCY = 4;

const TIMEOUT_MS = 15_000;
const LOCK_MS = 60_000;
const MAX_STALLED = 5;

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

const readerOf = (crm: string): RecordReader | undefined =>
  CONNECTORS.find(({ name }) => name === crm)?.reader;

/** Variables without a value that fetching from this CRM needs. */
const missingSettings = (config: Config, reader: RecordReader): string[] =>
  reader.needs.filter((name) => settingOf(config, name) === undefined);

/** Whether a CRM's records can be fetched with what is configured. */
export function canFetch(config: Config, crm: string): boolean {
  const reader = readerOf(crm);
  return reader !== undefined && missingSettings(config, reader).length === 0;
}

/** Has an event's record fetched. @returns why it cannot be. */
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
  const missing = missingSettings(runtime.config, reader);
  if (missing.length > 0) {
    const rule = `is needed, or ${missing.join(", ")}, so that it can be fetched from the CRM`;
    return { field: "data.record", rule, kind };
  }
  await runtime.thinEvents.put({ crm, subject: event.subject }, order, JSON.stringify(event));
  return undefined;
}

export function startFetch(runtime: Runtime): Fetch {
  const { config, log, metrics, throttle, thinEvents } = runtime;
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    proxy: {
      httpProxy: config.HTTP_PROXY,
      httpsProxy: config.HTTPS_PROXY,
      noProxy: config.NO_PROXY,
    },
  });
  for (const { name: crm, reader } of CONNECTORS) {
    if (reader === undefined) continue;
    for (const outcome of OUTCOMES) metrics.fetches.inc({ crm, outcome }, 0);
  }

  async function read(event: CrmEvent, crm: string): Promise<FetchedRecord> {
    const reader = readerOf(crm);
    const missing = reader && missingSettings(config, reader);
    if (reader === undefined || missing === undefined || missing.length > 0) {
      return { kind: "client_error", reason: `not configured: ${missing?.join(", ") ?? crm}` };
    }
    const { object, recordId } = splitSubject(event.subject);
    const setting = (name: string) => settingOf(config, name)?.() ?? "";
    return reader.fetchRecord({ ...api, setting }, object, recordId, runtime.mapping.reads);
  }

  async function handle(job: Job<ThinPointer>): Promise<void> {
    const pointer = job.data;
    const taken = await thinEvents.take(pointer);
    if (taken === undefined) return;
    const event = JSON.parse(taken.event) as CrmEvent;
    const fetched = await read(event, pointer.crm);
    metrics.fetches.inc({ crm: pointer.crm, outcome: fetched.kind });
    switch (fetched.kind) {
      case "found":
        await runtime.inbox.push([wholeEvent(event, taken, fetched)]);
        return thinEvents.done(pointer, taken);
      case "missing":
        // Its deletion is an event of its own; whoever may not see a record must not end it.
        log.warn({ crm: pointer.crm }, "fetch.missing");
        return thinEvents.done(pointer, taken);
      case "throttled":
        await thinEvents.queue.rateLimit(fetched.retryAfterMs);
        throw Worker.RateLimitError();
      case "client_error":
      case "unavailable":
        throttle(`fetch.${pointer.crm}`, (held) =>
          log.warn(
            { crm: pointer.crm, outcome: fetched.kind, why: fetched.reason, held },
            "fetch.failed",
          ),
        );
        if (Date.now() - job.timestamp < config.RETRY_MAX_HOURS * 3_600_000) {
          throw new Error(`the record could not be fetched (${fetched.reason})`);
        }
        await bury(event, taken, fetched.reason);
        metrics.fetches.inc({ crm: pointer.crm, outcome: "given_up" });
        return thinEvents.done(pointer, taken);
    }
  }

  async function bury(event: CrmEvent, taken: TakenThin, reason: string): Promise<void> {
    const rule = `could not be fetched for ${config.RETRY_MAX_HOURS} hours (${reason})`;
    await runtime.deadLetters.store({
      id: deadIdOfEvent(eventKey(event)),
      reason: "not_fetched",
      problems: [{ field: "data.record", rule, kind: "an event without its record" }],
      event: taken.event,
      source: event.source,
      crmCode: undefined,
      order: taken.order,
      at: Date.now(),
    });
    metrics.changes.inc({ outcome: "rejected" });
    metrics.rejected.inc({ reason: "not_fetched" });
  }

  const worker = new Worker<ThinPointer>(FETCH_QUEUE, handle, {
    ...runtime.tracing.bullmq,
    connection: runtime.redis,
    prefix: config.QUEUE_PREFIX,
    concurrency: CONCURRENCY,
    limiter: LIMITER,
    lockDuration: LOCK_MS,
    maxStalledCount: MAX_STALLED,
    settings: { backoffStrategy: (tries) => fetchPause(tries, Math.random) },
  });
  worker.on("error", (error) => {
    throttle("fetch.error", (held) => log.warn({ err: error, held }, "fetch.worker_error"));
  });
  worker.on("stalled", () => metrics.stalled.inc());
  return {
    async close() {
      await worker.close();
      await api.close();
    },
  };
}

/**
 * The event as it would have been, had the CRM sent the record. Its time is the newest that the
 * CRM's own clock gives: what is fetched is at least as new as the event that asked for it.
 */
function wholeEvent(
  event: CrmEvent,
  taken: TakenThin,
  fetched: Extract<FetchedRecord, { kind: "found" }>,
) {
  const { fetch: _, ...data } = event.data ?? {};
  const [asked = ""] = taken.order.split("\t");
  const time = [asked, fetched.modifiedAt]
    .filter((at) => at !== undefined && at !== "")
    .toSorted((a, b) => Date.parse(a ?? "") - Date.parse(b ?? ""))
    .at(-1);
  return {
    ...event,
    id: `${event.id}+record-${Date.now().toString(36)}`.slice(-512),
    ...(time !== undefined && { time }),
    data: { ...data, record: fetched.record },
  };
}
