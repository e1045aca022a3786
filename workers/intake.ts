/** Takes events from the inbox and stages the newest state of each record. */
import { DelayedError, type Job, type JobsOptions, type Worker } from "bullmq";
import { INBOX_QUEUE, redriveOf } from "../src/core/event/inbox.ts";
import { ownData, jobFault } from "../src/core/event/job-data.ts";
import type { ContentHash } from "../src/core/event/event-order.ts";
import type { Part } from "../src/base/shutdown.ts";
import { pulledFrom } from "../src/intake/pull/pulled-events.ts";
import { acceptEvent, type AcceptPorts } from "../src/core/sync/accept-event.ts";
import type { Arrival } from "../src/core/sync/check-event.ts";
import { DamagedValue, UnknownKey } from "../src/core/state/sealing.ts";
import { requestRecord } from "./request-fetch.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";
import { holdIntakeBack, openQueueWorker, type WorkerParts } from "./queue-worker.ts";
import { redriveDeadLetter, type RedriveParts } from "./redrive.ts";
import { reportAccepted } from "./report-outcome.ts";
import { rejectJob, type RejectParts } from "./reject-event.ts";
import type { CrmEvent } from "../src/core/event/crm-event.ts";
import { FIELD_NAMES } from "../src/intake/mapping/fields.ts";
import { eventRules, isUnusable, mapEvent } from "../src/intake/mapping/map-event-record.ts";
import type { MappingResult, Mapping } from "../src/intake/mapping/mapping.ts";
import type { TenantLists } from "../src/core/service-spec/tenant-lists.ts";
import type { FingerprintOf } from "../src/core/sync/fingerprint.ts";
import type { Keeps } from "../src/core/sync/keeps.ts";
import type { Mapped } from "../src/core/sync/mapped.ts";

type KeptParts = Uses<"keptFields" | "ledger" | "log" | "mapping">;

export type IntakeParts = KeptParts &
  RedriveParts &
  RejectParts &
  WorkerParts &
  Uses<"crmChecks" | "guards" | "keys" | "line" | "mappingGate" | "resealing" | "sources">;

/** What this process has told. A module that a new thread has read again may keep other fields. */
const told = new WeakMap<Mapping, Keeps>();

/**
 * Tells all processes which fields the mapping keeps. Intake decides it: a process without it may run
 * without the mapping.
 */
export async function adoptKeptFields({
  keptFields,
  ledger,
  log,
  mapping,
}: KeptParts): Promise<void> {
  const { keeps } = mapping;
  if (told.get(mapping) === keeps) return;
  const differ = await keptFields.adopt(keeps);
  // The ledger's fingerprints leave out other fields. A crash before this line costs requests alone.
  if (differ && (await ledger.forgetAll()) > 0) log.info({}, "mapping.kept_fields_changed");
  told.set(mapping, keeps);
}

/** Records may hold fields of any name; those unknown to the service share this label. */
const OTHER_FIELD = "other";

export interface IntakePorts {
  /** By the kept fields that the mapping has now. */
  current(): Promise<AcceptPorts>;
}

export function openPorts(parts: IntakeParts): IntakePorts {
  const { clock, deadLetters, history, keyring, mapping, staged, tenantLists, tracing } = parts;
  const portsFor = (
    keeps: Keeps,
    fingerprintOf: FingerprintOf,
    contentOf: ContentHash,
  ): AcceptPorts => ({
    rules: eventRules(mapping),
    mapping: {
      fetch: (event, order) => requestRecord(parts, event, order),
      map: (event, subject, lists) =>
        tracing.span("map", {}, () => mapRecord(parts, event, subject, lists)),
      codeOf: (subject) => staged.codeOf(subject),
    },
    lists: {
      known: () => tenantLists.known(),
      askAgain: () => tenantLists.askAgain(clock.now()),
    },
    fingerprintOf,
    records: {
      contentOf,
      seenAs: (key, content) => staged.seenAs(key, content),
      stage: (state) =>
        tracing.span("stage", {}, () =>
          staged.stage({ ...state, keeps, trace: tracing.carried?.() }),
        ),
      storeDeadLetter: (letter) => deadLetters.store(letter),
      dropDeadLetter: (crmCode, order) => deadLetters.dropOlder(crmCode, order),
      note(step, crmCode) {
        void history.note(crmCode === undefined ? step.event : { crmCode }, step);
      },
    },
  });
  let last: { readonly keeps: Keeps; readonly ports: AcceptPorts } | undefined;
  return {
    async current() {
      await adoptKeptFields(parts);
      const { keeps } = mapping;
      if (last?.keeps !== keeps) {
        const fingerprintOf = await keyring.fingerprintOf(keeps);
        last = { keeps, ports: portsFor(keeps, fingerprintOf, await keyring.contentHash()) };
      }
      return last.ports;
    },
  };
}

async function mapRecord(
  parts: IntakeParts,
  event: CrmEvent,
  subject: string,
  lists: TenantLists,
): Promise<Mapped> {
  const { crmChecks, mapping } = parts;
  const mapped = await mapEvent(mapping, event, subject, lists, { changed: crmChecks.changed() });
  if (mapped.kind !== "ignored") reportWarnings(parts, mapped, subject);
  if (mapped.kind !== "mapped") return mapped;
  return { ...mapped, warned: mapped.warnings };
}

/** Values themselves are personal data: only `crmsync preview` shows them. */
function reportWarnings(
  { metrics, log, recordName }: IntakeParts,
  { crmCode, warnings }: Exclude<MappingResult, { kind: "ignored" }>,
  subject: string,
): void {
  for (const { field, reason, kind } of warnings) {
    const label = FIELD_NAMES.includes(field) ? field : OTHER_FIELD;
    metrics.mappingWarnings.inc({ field: label, reason });
    if (isUnusable(reason)) metrics.countLeftOut(label);
    const record = recordName(crmCode ?? subject);
    log.debug({ record, fields: [label], why: reason, kind }, "record.value_left_out");
  }
}

/**
 * Events processed at once in one process. 30 stage half as many again, but a client of BullMQ may add events of
 * 10 MB, each of which takes several times its size of memory: with 16, thirty of them ended a process whose heap
 * had 512 MB.
 */
const CONCURRENCY = 10;

/** How long an event is locked, ms. Its worker renews the lock at half of it, or counts as dead. */
const LOCK_MS = 10_000;
const STALLED_CHECK_MS = 5000;

/** How long an event waits that failed for a reason that may pass, ms. */
const RETRY_MS = 5000;

/**
 * How long an event waits for the tenant's value lists before it is tried again, ms: longer when many
 * wait, so that their tries leave room for the other events.
 */
const LISTS_WAIT_MS = 4000;
const LISTS_WAIT_PER_EVENT_MS = 5;

/** How every job ends, whatever its sender has set. */
const OWN_OPTIONS: JobsOptions = { removeOnComplete: true, removeOnFail: false, attempts: 1 };

/**
 * The event must wait: the mapping is not approved, the tenant's value lists are not known yet, or another worker
 * accepts the event that is to be redriven.
 */
class NotYet extends Error {}

export interface Intake extends Part {
  /** A chore: holds it back while Redis is nearly full, or the mapping waits for approval. */
  readonly hold: Step;
}

export function startIntake(parts: IntakeParts): Intake {
  const { log, rarely, tracing } = parts;
  const ports = openPorts(parts);

  /** Delays a job, and seals its event: another client may have added it as plain text. */
  async function wait(job: Job, waitMs: number, token: string | undefined): Promise<never> {
    await parts.inbox.sealJob(job);
    await job.moveToDelayed(Date.now() + waitMs, token);
    throw new DelayedError();
  }

  /** Accepts one event. @throws DelayedError when it waits for another try. */
  async function handle(job: Job, token: string | undefined): Promise<void> {
    try {
      await accept(parts, ports, job);
    } catch (error) {
      if (error instanceof NotYet) {
        const others = await parts.inbox.queue.getDelayedCount();
        return wait(job, LISTS_WAIT_MS + others * LISTS_WAIT_PER_EVENT_MS, token);
      }
      if (isDefect(error)) {
        log.error({ err: error, record: parts.recordName(job.id) }, "event.defect");
        const defect = { reason: "defect", rule: "could not be processed" } as const;
        await rejectJob(parts, job, await eventIn(job, parts), defect);
        return;
      }
      if (error instanceof UnknownKey) parts.resealing.markDue();
      rarely.warn({ err: error }, "event.retry_scheduled");
      return wait(job, RETRY_MS, token);
    }
  }

  const worker = openQueueWorker(parts, INBOX_QUEUE, handle, {
    errorEvent: "intake.worker_error",
    ...tracing.bullmq,
    concurrency: CONCURRENCY,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    removeOnFail: { count: 10_000 },
  });
  // The options of another client must not keep the job, let it fail in a way of its own, or remove
  // it when it has failed. Set here, because BullMQ fails a job whose workers died too often
  // without calling `handle`.
  worker.on("active", ({ opts }) => Object.assign(opts, OWN_OPTIONS));
  askForMoreWhileMoreCome(worker);
  return { hold: holdIntakeBack(parts, worker), close: () => worker.close() };
}

/**
 * Each free place of a worker asks Redis for another event. So it has one place for an event that comes alone,
 * and all of them as soon as a second event comes before the inbox was found empty.
 */
function askForMoreWhileMoreCome(worker: Worker): void {
  let isAlone = true;
  worker.concurrency = 1;
  worker.on("active", () => {
    if (!isAlone) worker.concurrency = CONCURRENCY;
    isAlone = false;
  });
  worker.on("drained", () => {
    isAlone = true;
    worker.concurrency = 1;
  });
}

async function accept(parts: IntakeParts, intakePorts: IntakePorts, job: Job): Promise<void> {
  await parts.guards.checked();
  if (!(await parts.mappingGate.isOpen())) throw new NotYet();
  const fault = jobFault(job);
  if (fault !== undefined) {
    const bad = { reason: "bad_event", rule: fault } as const;
    return rejectJob(parts, job, await eventIn(job, parts), bad);
  }
  const ports = await intakePorts.current();
  const letterId = redriveOf(job);
  if (letterId !== undefined) {
    if ((await redriveDeadLetter(parts, letterId, ports)) === "again") throw new NotYet();
    return;
  }
  const value = await eventIn(job, parts);
  const { source: from } = (value ?? {}) as { source?: unknown };
  const isRead = typeof from === "string" && pulledFrom(from) !== undefined;
  const arrival = { ...(await arrivalOf(job, value, parts)), isRead };
  const { event, records } = await acceptEvent(value, arrival, ports);
  if (records.some(({ result }) => result === "waiting")) throw new NotYet();
  const source = parts.metrics.sourceLabel(event?.source ?? "unknown");
  parts.metrics.eventsReceived.inc({ source });
  // A pull is no sender that could be silent, and compares clocks by itself.
  if (event !== undefined && pulledFrom(event.source) === undefined) {
    await parts.sources.heard(source, arrival.at);
    const time = event.time === undefined ? job.timestamp : Date.parse(event.time);
    await parts.sources.datedAhead(source, time, arrival.at);
  }
  for (const record of records) reportAccepted(parts, record, event, source);
}

/** @throws UnknownKey: the event waits for a process that has the key. */
async function eventIn(job: Job, { inbox }: IntakeParts): Promise<unknown> {
  try {
    return await inbox.read(job);
  } catch (error) {
    // Not sealed by crmsync: the check of the event rejects it as it is.
    if (error instanceof DamagedValue) return ownData(job);
    throw error;
  }
}

/** Believes Redis' clock alone, and asks Redis only for an event whose own time does not suffice. */
async function arrivalOf(job: Job, value: unknown, parts: IntakeParts): Promise<Arrival> {
  const { clock } = parts;
  const countKey = parts.inbox.queue.toKey("id");
  const counted = numberIn(job.id);
  const number = counted ?? Number((await parts.redis.get(countKey)) ?? 0);
  const { time } = (value ?? {}) as { time?: unknown };
  if (time === undefined) {
    // A late event without a number of its own would count as sent after all that were added before now.
    const sentAt =
      counted === undefined && isLate(job)
        ? Math.min(job.timestamp, clock.now())
        : await clock.arrival(number, countKey, job.timestamp);
    return { at: Math.max(sentAt, clock.now()), sentAt, number };
  }
  // A time ahead of the clock is limited to the arrival. An event that is late must
  // not arrive after newer ones.
  const isPast = typeof time === "string" && Date.parse(time) <= clock.now();
  const at = isPast && !isLate(job) ? clock.now() : await clock.arrival(number, countKey);
  return { at, sentAt: job.timestamp, number };
}

/** Whether events that were added later may have been handled before. */
const isLate = ({ attemptsStarted, opts, priority }: Job): boolean =>
  attemptsStarted > 1 || priority > 0 || (opts.delay ?? 0) > 0;

/**
 * The number that BullMQ gave the event: it counts all jobs, also those with an id of their own, which
 * have none. For these it is the count at the time when they are taken.
 */
function numberIn(id = ""): number | undefined {
  return /^[1-9]\d{0,14}$/.test(id) ? Number(id) : undefined;
}

/** Whether the code is at fault. Other errors are those of Redis, which pass. */
function isDefect(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  );
}
