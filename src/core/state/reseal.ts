/**
 * Seals everything in Redis with the key that seals now: after a rotation of STATE_KEY, and when it is
 * set for the first time. Values that change meanwhile are sealed with it by their writers.
 */
import type { Job, Queue } from "bullmq";
import { ownData, JOB_STATES, readJobsOf } from "../event/job-data.ts";
import { jsonReading, type Reading } from "../../base/redis-reading.ts";
import { LANES } from "../event/lane.ts";
import { OfRecords } from "./record-store.ts";
import { objectIn } from "./store.ts";
import { scanHash, scanSorted } from "./scan.ts";
import { DamagedValue, UnknownKey } from "./sealing.ts";
import { textsOf, withTexts } from "./staged-values.ts";
import { sealedNameOf } from "./told-outcomes.ts";

/** Entries read, and sealed, at once. */
const CHUNK = 200;

/** After this long without a sign of its process, another one may seal, ms. */
const LEASE_MS = 30_000;

/** What one pass over Redis has found. */
export interface Resealed {
  /** Values that were not sealed with the present key. */
  readonly found: number;
  /** Keys that no value can be opened without, and that this process does not have → how many values. */
  readonly missing: Readonly<Record<string, number>>;
}

/** A hash whose fields hold JSON with a text that is sealed for the name of its field. */
interface Place {
  readonly key: string;
  /** For which name it is sealed; absent: for that of the field. */
  readonly sealedFor?: (field: string) => string;
  /** The name of the sealed text in that JSON. */
  readonly within: string;
}

/** Jobs of a queue, with the text that each is sealed for. */
export interface SealedJobs {
  readonly queue: Queue;
  readonly about: string;
  readonly sealedIn: (data: unknown) => string | undefined;
}

export class Resealing extends OfRecords {
  /** Of the process that seals everything again. */
  readonly lease = this.leaseFor(this.keys.resealing, LEASE_MS);
  #found = 0;
  #missing = new Map<string, number>();
  #isDue = this.sealing.keyId !== undefined;

  /** Whether a pass of this process may find something. */
  get isDue(): boolean {
    return this.#isDue;
  }

  /** A value could not be opened: a pass must find and count all of its kind, for status. */
  markDue(): void {
    this.#isDue = true;
  }

  /** Writes what the pass has found, for status; nothing once everything is sealed with one key. */
  async report({ found, missing }: Resealed): Promise<void> {
    const key = this.keys.resealed;
    this.#isDue = found > 0;
    if (found === 0) await this.redis.del(key);
    else await this.write("SET", key, JSON.stringify({ found, missing }));
  }

  /** Undefined: everything is sealed with one key, or nothing is. */
  reading(): Reading<Resealed | undefined> {
    return jsonReading("get", this.keys.resealed);
  }

  /** One pass. @param onProgress called now and then, to keep the lease. */
  async pass(jobs: readonly SealedJobs[], onProgress: () => Promise<void>): Promise<Resealed> {
    this.#found = 0;
    this.#missing = new Map();
    const { heldTerminations, later, line } = this.keys;
    for (const set of [...LANES.map(line), later, heldTerminations]) {
      for await (const page of scanSorted(this.redis, set, CHUNK)) {
        await Promise.all(page.map(([crmCode]) => this.#resealStaged(crmCode)));
        await onProgress();
      }
    }
    for (const place of this.#places()) {
      for await (const fields of scanHash(this.redis, place.key, CHUNK)) {
        await Promise.all(fields.map(([field, value]) => this.#resealField(place, field, value)));
        await onProgress();
      }
    }
    for (const one of jobs) {
      for await (const page of this.#jobsOf(one.queue)) {
        await Promise.all(page.map((job) => this.#resealJob(one, job)));
        await onProgress();
      }
    }
    return { found: this.#found, missing: Object.fromEntries(this.#missing) };
  }

  #places(): Place[] {
    const { deadLetters, deadMarks, thinEvents, toldSending, toldWaiting } = this.keys;
    return [
      { key: deadLetters, within: "event" },
      { key: thinEvents, within: "event" },
      // In the order in which an outcome moves.
      ...[deadMarks, toldWaiting, toldSending].map((key) => {
        return { key, sealedFor: sealedNameOf, within: "about" } as const;
      }),
    ];
  }

  async #resealStaged(crmCode: string): Promise<void> {
    const { staged } = await this.records.read(crmCode);
    if (staged === undefined) return;
    const sealed = new Map<string, string>();
    for (const text of textsOf(staged)) {
      const again = await this.#sealAgain(text, crmCode);
      if (again !== undefined) sealed.set(text, again);
    }
    if (sealed.size === 0) return;
    await this.records.change(crmCode, [], (read) => {
      // Texts that have changed meanwhile were sealed by their writer.
      const resealed = read.staged && withTexts(read.staged, (text) => sealed.get(text) ?? text);
      return { record: { ...read, staged: resealed }, outcome: undefined };
    });
  }

  async #resealField(
    { key, sealedFor = (name) => name, within }: Place,
    field: string,
    value: string,
  ): Promise<void> {
    const whole = objectIn(value);
    const text = whole?.[within];
    const sealed =
      typeof text === "string" ? await this.#sealAgain(text, sealedFor(field)) : undefined;
    if (sealed === undefined) return;
    await this.swap(key, field, value, JSON.stringify({ ...whole, [within]: sealed }));
  }

  async #resealJob({ about, sealedIn }: SealedJobs, job: Job): Promise<void> {
    const text = sealedIn(ownData(job));
    const sealed = text === undefined ? undefined : await this.#sealAgain(text, about);
    // A worker may have ended the job meanwhile.
    if (sealed !== undefined) await job.updateData({ sealed }).catch(() => {});
  }

  /** @returns undefined when it is sealed with the present key, or cannot be opened. */
  async #sealAgain(text: string, about: string): Promise<string | undefined> {
    if (this.sealing.isCurrent(text)) return undefined;
    this.#found += 1;
    try {
      return await this.sealing.seal(await this.sealing.open(text, about), about);
    } catch (error) {
      // What somebody has damaged no key can open: it does not keep the old one from being removed.
      if (error instanceof DamagedValue) this.#found -= 1;
      if (error instanceof UnknownKey) {
        this.#missing.set(error.keyId, (this.#missing.get(error.keyId) ?? 0) + 1);
      }
      return undefined;
    }
  }

  /**
   * When jobs end meanwhile, later ones move to places that were read before: the next pass finds these.
   * Active jobs are read too, since such a job waits again if its worker dies: first, and once more for the
   * jobs that a worker has taken meanwhile.
   */
  async *#jobsOf(queue: Queue): AsyncGenerator<Job[]> {
    const active = new Set<string>();
    for (const state of [...JOB_STATES, "active"] as const) {
      for (let from = 0; ; from += CHUNK) {
        const ids = await queue.getRanges([state], from, from + CHUNK - 1, true);
        if (ids.length === 0) break;
        const unread = ids.filter((id) => !active.has(id));
        if (state === "active") for (const id of ids) active.add(id);
        yield await readJobsOf(queue, unread);
      }
    }
  }
}
