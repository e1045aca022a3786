/** Takes events from the inbox and stages the newest state of each record. */
import { DelayedError, type Job, type JobsOptions } from "bullmq";
import { MAX_DEPTH } from "../src/event/crm-event.ts";
import { isDeeperThan } from "../src/event/depth.ts";
import { parseExactly } from "../src/event/exact-json.ts";
import { hasRounded } from "../src/event/ill-formed.ts";
import { INBOX_QUEUE, redriveOf } from "../src/event/inbox.ts";
import { arrivedAt, jobFault } from "../src/event/job-fault.ts";
import type { Part } from "../src/ops/shutdown.ts";
import { growYoungGeneration } from "../src/ops/v8-memory.ts";
import { acceptEvent, identityOf, type Arrival } from "../src/sync/accept-event.ts";
import { DamagedValue, UnknownKey } from "../src/state/sealing.ts";
import { createDeadLetter, type DeadReason } from "../src/sync/dead-letter.ts";
import { openPorts, type IntakePorts } from "./accept-ports.ts";
import { openGiveWay } from "./give-way.ts";
import { openQueueWorker } from "./queue-worker.ts";
import { redriveDeadLetter } from "./redrive.ts";
import { expediteStaged, reportAccepted } from "./report-accepted.ts";
import { rejectEvent } from "./reject-event.ts";
import { openLargeEvents } from "./large-events.ts";
import { holdIntakeBack } from "./memory-gate.ts";
import { MOST_ALONG, openAlong } from "./handle-along.ts";
import { DRAIN_DELAY_S } from "./keep-rest.ts";
import type { Runtime } from "./runtime.ts";

/** Events processed at once in one process with traces; each waits mostly for Redis. */
const CONCURRENCY = 50;
const MANY_IN_FLIGHT = CONCURRENCY / 2;

/** Without traces, BullMQ hands out this many at once, and each takes others along (handle-along.ts). */
const PLACES = 6;

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
 * The event must wait: the tenant's value lists are not known yet, or another worker accepts the event that
 * is to be redriven.
 */
class NotYet extends Error {}

export function startIntake(runtime: Runtime): Part {
  const { log, rarely, tracing } = runtime;
  const ports = openPorts(runtime);
  const giveWay = openGiveWay(runtime.inbox);
  const large = openLargeEvents(runtime.deadLetters);
  let inFlight = 0;
  /** Whether more events wait than can be taken along. */
  let isFlood = false;

  /** Delays a job, and seals its event: another client may have added it as plain text. */
  async function wait(job: Job, waitMs: number, token: string | undefined): Promise<void> {
    await runtime.inbox.sealJob(job);
    await job.moveToDelayed(Date.now() + waitMs, token);
  }

  /** Accepts one event. @throws DelayedError when it waits for another try. */
  async function handleOne(job: Job, token: string | undefined): Promise<void> {
    inFlight += 1;
    try {
      await large.handle(job, () => accept(runtime, ports, job));
    } catch (error) {
      if (error instanceof NotYet) {
        const others = await runtime.inbox.queue.getDelayedCount();
        const waitMs = LISTS_WAIT_MS + others * LISTS_WAIT_PER_EVENT_MS;
        await wait(job, waitMs, token);
        throw new DelayedError();
      }
      if (isDefect(error)) {
        log.error({ err: error, record: runtime.recordName(job.id) }, "event.defect");
        await rejectJob(runtime, job, { reason: "defect", rule: "could not be processed" });
        return;
      }
      if (error instanceof UnknownKey) runtime.resealing.markDue();
      rarely.warn({ err: error }, "event.retry_scheduled");
      await wait(job, RETRY_MS, token);
      throw new DelayedError();
    } finally {
      inFlight -= 1;
    }
  }

  async function handle(job: Job, token: string | undefined): Promise<void> {
    if (isFlood) await giveWay.wait().catch(() => {});
    // Only while all other places are taken, others wait to be taken along.
    const isAlone = inFlight < PLACES - 1 || large.areInWork;
    const others = takesAlong && !isAlone ? handleAlong() : undefined;
    if (others === undefined) isFlood = false;
    others?.then(
      (taken) => {
        isFlood = taken === MOST_ALONG;
        // Jobs that are not plain cannot be taken along: BullMQ hands out more at once when there are such.
        worker.concurrency = taken > 0 ? PLACES : CONCURRENCY;
      },
      (error: unknown) => worker.emit("error", error as Error),
    );
    try {
      await handleOne(job, token);
    } finally {
      growYoungGeneration(isFlood || inFlight > MANY_IN_FLIGHT);
      await others?.catch(() => {});
    }
  }

  // BullMQ's spans know nothing of jobs that are taken along.
  const takesAlong = tracing.bullmq.telemetry === undefined;
  const { worker, checks } = openQueueWorker(runtime, INBOX_QUEUE, handle, {
    errorEvent: "intake.worker_error",
    ...tracing.bullmq,
    concurrency: takesAlong ? PLACES : CONCURRENCY,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    drainDelay: DRAIN_DELAY_S,
    removeOnFail: { count: 10_000 },
  });
  // The options of another client must not keep the job, let it fail in a way of its own, or remove
  // it when it has failed. Set here, because BullMQ fails a job whose workers died too often
  // without calling `handle`.
  worker.on("active", ({ opts }) => Object.assign(opts, OWN_OPTIONS));
  const handleAlong = openAlong(runtime, worker, LOCK_MS, handleOne);
  const holding = holdIntakeBack(runtime, worker);
  return {
    async close() {
      giveWay.end();
      await holding.close();
      await checks.close();
      await worker.close();
    },
  };
}

async function accept(runtime: Runtime, intakePorts: IntakePorts, job: Job): Promise<void> {
  runtime.rest.expectChange();
  await runtime.rest.checked();
  const fault = jobFault(job);
  if (fault !== undefined || job.attemptsMade !== 0) await runtime.inbox.removeFaults(job);
  if (fault !== undefined) return rejectJob(runtime, job, { reason: "bad_event", rule: fault });
  const ports = await intakePorts.current();
  const letterId = redriveOf(job);
  if (letterId !== undefined) {
    if ((await redriveDeadLetter(runtime, letterId, ports)) === "again") throw new NotYet();
    return;
  }
  const value = await eventIn(job, runtime);
  const arrival = await arrivalOf(job, value, runtime);
  const { event, records } = await acceptEvent(value, arrival, ports);
  await expediteStaged(runtime, records);
  if (records.some(({ result }) => result === "waiting")) throw new NotYet();
  const source = runtime.metrics.sourceLabel(event?.source ?? "unknown");
  runtime.metrics.eventsReceived.inc({ source });
  if (event !== undefined) {
    await runtime.sources.heard(source, arrival.at);
    const time = event.time === undefined ? job.timestamp : Date.parse(event.time);
    await runtime.sources.dated(source, time, arrival.at);
  }
  for (const record of records) reportAccepted(runtime, record, event, source);
}

/** @throws UnknownKey: the event waits for a process that has the key. */
async function eventIn(job: Job, { inbox, redis }: Runtime): Promise<unknown> {
  try {
    // BullMQ has parsed it: of a number with many digits, only the text in Redis has all of them.
    if (!isDeeperThan(MAX_DEPTH, job.data) && hasRounded(job.data)) {
      const text = await redis.hget(inbox.queue.toKey(job.id ?? ""), "data");
      if (text !== null) return parseExactly(text);
    }
    return await inbox.open(job.data);
  } catch (error) {
    // Not sealed by crmsync: the check of the event rejects it as it is.
    if (error instanceof DamagedValue) return job.data;
    throw error;
  }
}

/** Believes Redis' clock alone, and asks Redis only for an event whose own time does not suffice. */
async function arrivalOf(job: Job, value: unknown, runtime: Runtime): Promise<Arrival> {
  const { clock } = runtime;
  const countKey = runtime.inbox.queue.toKey("id");
  const counted = numberIn(job.id);
  const number = counted ?? Number((await runtime.redis.get(countKey)) ?? 0);
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

async function rejectJob(
  runtime: Runtime,
  job: Job,
  { reason, rule }: { readonly reason: DeadReason; readonly rule: string },
): Promise<void> {
  const value = await eventIn(job, runtime);
  const { source, key } = identityOf(value, `job-${job.id}`);
  const problems = [{ field: "", rule, kind: "an event" }];
  const arrival = { at: arrivedAt(job.timestamp, Date.now()), number: numberIn(job.id) ?? 0 };
  await rejectEvent(
    runtime,
    createDeadLetter(
      { eventKey: key },
      { reason, problems, source, event: JSON.stringify(value), at: Date.now(), arrival },
    ),
  );
}
