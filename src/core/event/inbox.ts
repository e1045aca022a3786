/**
 * The public inbox: a BullMQ queue onto which any BullMQ client in any language may add a job
 * whose data is one CloudEvent. The HTTP intake and the command line add their events here too.
 */
import type { Job, Queue, QueueOptions } from "bullmq";
import type { Redis } from "ioredis";
import { eventKey, type ContentHash } from "./event-order.ts";
import { parseExactly } from "./exact-json.ts";
import { dataText, exactData, ownData, removeStuck, stuckJobs, type StuckJob } from "./job-data.ts";
import { openQueue } from "./open-queue.ts";

export const INBOX_QUEUE = "crm-events";

/** Events added in one round trip; bounds the size of one transaction in Redis. */
const CHUNK = 500;

/** Name of a job that carries no event, but asks that a dead letter be accepted again. */
const REDRIVE = "redrive";

/** What the data of a job is sealed for. */
export const SEALED_FOR = "inbox";

/** Seals the events that crmsync itself adds; see src/core/state/sealing.ts. */
export interface EventSealing {
  seal(text: string, about: string): Promise<string>;
  open(value: string, about: string): Promise<string>;
  /** Undefined: events are added as they are. */
  readonly keyId: string | undefined;
}

const NO_SEALING: EventSealing = {
  seal: async (text) => text,
  open: async (value) => value,
  keyId: undefined,
};

/** Result of a batch: how many events were added, and how many wait here already. */
export interface PushResult {
  readonly accepted: number;
  readonly duplicates: number;
}

export class Inbox {
  readonly queue: Queue;
  readonly #redis: Redis;
  readonly #sealing: EventSealing;

  /** @param redis a client for commands; the caller opens and closes it. */
  constructor(
    redis: Redis,
    prefix: string,
    sealing: EventSealing = NO_SEALING,
    tracing: Pick<QueueOptions, "telemetry"> = {},
  ) {
    this.#redis = redis;
    this.#sealing = sealing;
    this.queue = openQueue(INBOX_QUEUE, redis, {
      ...tracing,
      prefix,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: false },
    });
  }

  /**
   * Adds events, each once: an event that waits here already, with the same content, is a duplicate.
   * Resolves only when Redis has all of them; a chunk of 500 is stored whole or not at all.
   * @param sentAt Redis' time, ms; undefined: by the clock of this machine.
   * @param contentOf undefined where each event has an id of its own.
   */
  async push(
    events: readonly { source: string; id: string }[],
    sentAt?: number,
    contentOf: ContentHash = () => "",
  ): Promise<PushResult> {
    const sent = sentAt === undefined ? {} : { timestamp: sentAt };
    let accepted = 0;
    for (let start = 0; start < events.length; start += CHUNK) {
      const chunk = events.slice(start, start + CHUNK);
      const data = this.#sealing.keyId === undefined ? chunk : await this.#sealAll(chunk);
      const keys = chunk.map((event) => eventKey(event) + contentOf(event));
      // In one round trip: Redis answers in this order.
      const [waiting, ids] = await Promise.all([
        Promise.all(keys.map((key) => this.queue.getDeduplicationJobId(key))),
        addAll(
          this.queue,
          keys.map((id, index) => ({
            name: "event",
            data: data[index],
            opts: { ...sent, deduplication: { id } },
          })),
        ),
      ]);
      // For a duplicate, BullMQ returns the id of the job that waits already.
      accepted += new Set(ids.filter((id, index) => id !== waiting[index])).size;
    }
    return { accepted, duplicates: events.length - accepted };
  }

  /**
   * What a job carries: the event as it was added, by us or by another client.
   * @throws as `Sealing.open`
   */
  async read(job: Pick<Job, "id" | "data">): Promise<unknown> {
    return this.open(await exactData(this.#redis, this.queue, job));
  }

  /** The event in the data of a job. @throws as `Sealing.open` */
  async open(data: unknown): Promise<unknown> {
    const sealed = sealedIn(data);
    if (sealed === undefined) return data;
    const text = await this.#sealing.open(sealed, SEALED_FOR);
    try {
      return parseExactly(text);
    } catch {
      // Another client's event has a text of its own by this name.
      return data;
    }
  }

  /** Seals the event of a job that must wait, as its sender has written it: another client has added it. */
  async sealJob(job: Pick<Job, "id" | "name" | "data" | "updateData">): Promise<void> {
    if (this.#sealing.keyId === undefined || sealedIn(ownData(job)) !== undefined) return;
    // A redrive carries no event. Sealed, it would not be known as a redrive any more.
    if (redriveOf(job) !== undefined) return;
    const text = await dataText(this.#redis, this.queue, job.id);
    if (text !== null) await job.updateData(await this.#seal(text));
  }

  #sealAll(events: readonly unknown[]): Promise<unknown[]> {
    return Promise.all(events.map((event) => this.#seal(JSON.stringify(event))));
  }

  async #seal(text: string): Promise<unknown> {
    return { sealed: await this.#sealing.seal(text, SEALED_FOR) };
  }

  /**
   * Asks intake to accept the event of a dead letter again. The job carries only the letter's id: the
   * event, its order and its arrival stay where they are, and no sender can forge them.
   */
  async redrive(deadLetterId: string): Promise<void> {
    const deduplication = { id: `${REDRIVE}:${deadLetterId}` };
    await this.queue.add(REDRIVE, { redrive: deadLetterId }, { deduplication });
  }

  /** Jobs that no worker will end, so that the sweep must. */
  stuck(): AsyncIterable<StuckJob> {
    return stuckJobs(this.#redis, this.queue);
  }

  /** Removes a job that is stuck, once what it held is kept elsewhere. */
  removeStuck(id: string): Promise<void> {
    return removeStuck(this.#redis, this.queue, id);
  }

  async close(): Promise<void> {
    await this.queue.close();
  }
}

/** The dead letter that a job asks to redrive; undefined for a job that carries an event. */
export function redriveOf(job: Pick<Job, "name" | "data">): string | undefined {
  const { name } = job;
  const data = ownData(job);
  if (name !== REDRIVE || typeof data !== "object" || data === null) return undefined;
  const { redrive, ...rest } = data as { redrive?: unknown };
  return typeof redrive === "string" && Object.keys(rest).length === 0 ? redrive : undefined;
}

/** The sealed text in the data of a job; undefined for an event that is not sealed. */
export function sealedIn(data: unknown): string | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  const { sealed, ...rest } = data as { sealed?: unknown };
  return typeof sealed === "string" && Object.keys(rest).length === 0 ? sealed : undefined;
}

type Jobs = Parameters<Queue["addBulk"]>[0];

/**
 * Adds jobs, all or none. A single job needs no transaction; BullMQ's transactions copy every
 * command and script of the client, which made most of the garbage at 500 events a second.
 * @returns their ids; for a duplicate, the id of the job that waits already.
 */
async function addAll(queue: Queue, jobs: Jobs): Promise<(string | undefined)[]> {
  const [only, ...others] = jobs;
  if (only === undefined) return [];
  const added: Job[] =
    others.length > 0
      ? await queue.addBulk(jobs)
      : [await queue.add(only.name, only.data, only.opts)];
  return added.map(({ id }) => id);
}
