/** Takes events from the inbox and stages the newest state of each record. */
import { DelayedError, Worker, type Job } from "bullmq";
import type { CrmEvent } from "../src/event/crm-event.ts";
import { splitSubject } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-key.ts";
import { INBOX_QUEUE } from "../src/event/inbox.ts";
import { FIELD_NAMES } from "../src/mapping/fields.ts";
import { WARNING_REASONS } from "../src/mapping/mapping.ts";
import {
  acceptEvent,
  type Accepted,
  type AcceptPorts,
  type Mapped,
} from "../src/sync/accept-event.ts";
import { fetchRecord } from "./fetch.ts";
import { deadIdOfEvent } from "../src/sync/dead-letter.ts";
import { fieldsOf, hashed } from "./log-names.ts";
import type { Runtime } from "./runtime.ts";

/** Events worked on at once in one process; each waits mostly for Redis. */
const CONCURRENCY = 50;

/** A job whose worker died is taken back this often before BullMQ gives it up. */
const MAX_STALLED = 5;

/** An event is held this long, renewed at half of it; then it counts as its worker's death. */
const LOCK_MS = 10_000;
const STALLED_LOOK_MS = 5000;

/** How long an event waits whose handling failed for a reason that may pass, ms. */
const PUT_OFF_MS = 5000;

export interface Intake {
  close(): Promise<void>;
}

export function startIntake(runtime: Runtime): Intake {
  const { log, metrics, throttle, tracing } = runtime;
  for (const field of [...FIELD_NAMES, OTHER_FIELD]) {
    for (const reason of Object.keys(WARNING_REASONS)) {
      metrics.mappingWarnings.inc({ field, reason }, 0);
    }
  }
  const ports: AcceptPorts = {
    map: (event, subject) => tracing.span("map", {}, () => mapWith(runtime, event, subject)),
    fetch: (event, crm, order) => fetchRecord(runtime, event, crm, order),
    lists: () => runtime.tenantLists.current(),
    isSeen: async (key) => (await runtime.staged.seen([key])).has(key),
    stage: (state, deadId) => tracing.span("stage", {}, () => runtime.staged.stage(state, deadId)),
    storeDeadLetter: (letter) => runtime.deadLetters.store(letter),
  };

  async function handle(job: Job, token: string | undefined): Promise<void> {
    try {
      const arrival = { at: job.timestamp, number: await arrivalNumber(job, runtime) };
      const { event, records } = await acceptEvent(job.data, arrival, ports);
      const source = metrics.sourceLabel(event?.source ?? "unknown");
      metrics.eventsReceived.inc({ source });
      await runtime.sources.heard(source, job.timestamp);
      await point(runtime, records);
      for (const record of records) count(runtime, record, event);
    } catch (error) {
      if (isDefect(error)) {
        log.error({ err: error, record: runtime.logName(job.id) }, "event.defect");
        await buryDefect(runtime, job);
        return;
      }
      throttle("intake", (held) => log.warn({ err: error, held }, "event.retry_scheduled"));
      await job.moveToDelayed(Date.now() + PUT_OFF_MS, token);
      throw new DelayedError();
    }
  }

  const worker = new Worker(INBOX_QUEUE, handle, {
    ...tracing.bullmq,
    connection: runtime.redis,
    prefix: runtime.config.QUEUE_PREFIX,
    concurrency: CONCURRENCY,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_LOOK_MS,
    maxStalledCount: MAX_STALLED,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 10_000 },
  });
  worker.on("error", (error) => {
    throttle("intake.error", (held) => log.warn({ err: error, held }, "intake.worker_error"));
  });
  worker.on("stalled", () => metrics.stalled.inc());
  return { close: () => worker.close() };
}

/**
 * A number that grows with every event added. BullMQ counts every job, also those that bring an
 * id of their own: for these the count as it stands when they are taken.
 */
async function arrivalNumber(job: Job, runtime: Runtime): Promise<number> {
  if (job.id !== undefined && /^\d{1,15}$/.test(job.id)) return Number(job.id);
  return Number((await runtime.redis.get(runtime.inbox.queue.toKey("id"))) ?? 0);
}

/** Records may bring any names; those of the service's fields are told apart. */
const OTHER_FIELD = "other";
const warningField = (field: string): string => (FIELD_NAMES.includes(field) ? field : OTHER_FIELD);

async function mapWith(runtime: Runtime, event: CrmEvent, subject: string): Promise<Mapped> {
  const { object, recordId } = splitSubject(subject);
  const { type, source } = event;
  // The record is the event's own: one that was merged into it comes without.
  const record = subject === event.subject ? event.data?.record : undefined;
  const context = { type, source, subject, object, recordId };
  const lists = runtime.tenantLists.current();
  let mapped = await runtime.mapping.map(context, record, lists);
  const isKeyless = mapped.kind === "unmappable" && mapped.crmCode === undefined;
  if (isKeyless && record !== undefined && type === "crm.record.deleted") {
    // What is left of a deleted record may be anything; its key may do without.
    const bare = await runtime.mapping.map(context, undefined, lists);
    if (bare.kind === "mapped") mapped = bare;
  }
  if (mapped.kind !== "ignored") {
    for (const { field, reason } of mapped.warnings) {
      runtime.metrics.mappingWarnings.inc({ field: warningField(field), reason });
    }
  }
  return mapped;
}

/**
 * Adds the pointers of what was staged; a state that replaced a waiting one has its pointer
 * already. Should this process die before, the sweeper adds them.
 */
async function point(runtime: Runtime, records: readonly Accepted[]): Promise<void> {
  const staged = records.flatMap(({ crmCode, lane, result, coalesced }) =>
    crmCode !== undefined && result === "staged" ? [{ crmCode, lane, coalesced }] : [],
  );
  const pointers = staged.filter(({ coalesced }) => !coalesced);
  // First the demand, so that a quick worker finds the turn that it is to end.
  if (staged.length > 0) await runtime.demand.changed(staged);
  if (pointers.length > 0) await runtime.pointers.add(pointers);
  for (const { crmCode, expedite } of records) {
    if (expedite && crmCode !== undefined) await runtime.pointers.expedite(crmCode);
  }
}

function count(runtime: Runtime, record: Accepted, event: CrmEvent | undefined): void {
  const { metrics, log } = runtime;
  if (record.coalesced) metrics.changes.inc({ outcome: "coalesced" });
  if (record.result === "fetching") return;
  if (record.result !== "staged") metrics.changes.inc({ outcome: record.result });
  const { lane, result, reason } = record;
  runtime.tracing.note({
    "crmsync.outcome": record.coalesced && result === "staged" ? "coalesced" : result,
    "crmsync.reason": reason,
    "crmsync.lane": lane,
    "crmsync.record": record.crmCode && hashed(record.crmCode),
  });
  const line = {
    record: runtime.logName(record.crmCode),
    outcome: result,
    reason,
    lane,
    source: event && metrics.sourceLabel(event.source),
  };
  if (result === "unchanged" || result === "nothing_to_terminate") {
    const at = event?.time === undefined ? Date.now() : Date.parse(event.time);
    const freshness = Math.max(0, (Date.now() - at) / 1000);
    metrics.freshness.observe({ lane }, freshness);
    log.info({ ...line, freshness_s: freshness }, "change.settled");
  } else if (result === "rejected") {
    metrics.rejected.inc({ reason: reason ?? "invalid" });
    log.info({ ...line, fields: fieldsOf(record.problems) }, "change.settled");
  }
}

/** Redis's troubles pass; anything else that is thrown here is a fault in the code. */
function isDefect(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  );
}

async function buryDefect(runtime: Runtime, job: Job): Promise<void> {
  const data = job.data as { source?: unknown; id?: unknown } | null;
  const source = typeof data?.source === "string" ? data.source : undefined;
  const id = typeof data?.id === "string" ? data.id : String(job.id);
  await runtime.deadLetters.store({
    id: deadIdOfEvent(eventKey({ source: source ?? "unknown", id })),
    reason: "defect",
    problems: [{ field: "", rule: "could not be worked on", kind: "an event" }],
    event: JSON.stringify(job.data),
    source,
    crmCode: undefined,
    order: undefined,
    at: Date.now(),
  });
  runtime.metrics.changes.inc({ outcome: "rejected" });
  runtime.metrics.rejected.inc({ reason: "defect" });
}
