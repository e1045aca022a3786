/**
 * Makes changes of past events. A record is what the events name as one crmCode or one subject; its
 * state is the content of its newest fields, and whether it is terminated. The fields are compared
 * as they came: no mapping is applied.
 */
import { createHash } from "node:crypto";
import { contentHashWith, eventKey } from "../event/event-order.ts";
import type { CrmEvent } from "../event/crm-event.ts";
import { fingerprintOf } from "../sync/fingerprint.ts";
import type { Change } from "./waiting-records.ts";

/** A change whose state lacks the fields that came before it, if it brings none itself. */
interface LoadedChange extends Required<Change> {
  state: number;
}

export type Load = ReturnType<EventLoad["load"]>;

const hashOf = contentHashWith(undefined);

export class EventLoad {
  readonly #seen = new Set<string>();
  readonly #records = new Map<string, number>();
  /** By record: the newest time so far. */
  readonly #newest: number[] = [];
  readonly #changes: LoadedChange[] = [];
  #events = 0;
  #duplicates = 0;
  #outOfOrder = 0;
  #unique = 0;

  add(event: CrmEvent, at: number): void {
    this.#events += 1;
    const key = eventKey(event) + hashOf(event);
    if (this.#seen.has(key)) {
      this.#duplicates += 1;
      return;
    }
    this.#seen.add(key);
    const { data, lane, subject, type } = event;
    for (const merged of data?.merged ?? []) {
      const record = this.#recordOf(merged, undefined);
      const state = stateOf(NO_FIELDS, true);
      this.#changes.push({ at, record, lane, state, bare: true, creates: false });
    }
    const record = this.#recordOf(subject, data?.record?.["crmCode"]);
    const newest = this.#newest[record] ?? at;
    if (at < newest) this.#outOfOrder += 1;
    this.#newest[record] = Math.max(at, newest);
    const fields = this.#fieldsOf(data);
    const state = stateOf(fields ?? NO_FIELDS, type === "crm.record.deleted");
    const creates = type === "crm.record.created";
    this.#changes.push({ at, record, lane, state, bare: fields === undefined, creates });
  }

  load() {
    /** In the order of their times. */
    const changes: readonly Change[] = this.#changes.sort((a, b) => a.at - b.at);
    completeStates(this.#changes);
    return {
      changes,
      events: this.#events,
      records: this.#newest.length,
      /** Events that came before, with the same source, id and content: crmsync ignores them. */
      duplicates: this.#duplicates,
      /** Events that stand after a newer one of their record. */
      outOfOrder: this.#outOfOrder,
    };
  }

  /** A payload has a crmCode; an event without fields has only its subject. */
  #recordOf(subject: string, crmCode: unknown): number {
    const bySubject = `subject ${subject}`;
    const byCode = typeof crmCode === "string" ? `crmCode ${crmCode}` : bySubject;
    const record = this.#records.get(byCode) ?? this.#records.get(bySubject) ?? this.#newest.length;
    if (record === this.#newest.length) this.#newest.push(Number.NEGATIVE_INFINITY);
    this.#records.set(bySubject, record).set(byCode, record);
    return record;
  }

  #fieldsOf(data: CrmEvent["data"]): number | undefined {
    if (data?.record !== undefined) return contentOf(data.record);
    if (data?.fetch === undefined) return undefined;
    // What its record contained is not known: it counts as new. Hashes are positive.
    this.#unique -= 1;
    return this.#unique;
  }
}

/** The content of a record whose fields are not known: the events so far brought none. */
const NO_FIELDS = 0;

/** A state as a number: the content of its fields, and whether the relation is terminated. */
const stateOf = (fields: number, terminated: boolean): number => 2 * fields + (terminated ? 1 : 0);

const fieldsIn = (state: number): number => Math.floor(state / 2);

/** An event without fields keeps those that came before it. */
function completeStates(changes: readonly LoadedChange[]): void {
  const newest = new Map<number, number>();
  for (const change of changes) {
    const before = newest.get(change.record) ?? NO_FIELDS;
    if (change.bare) change.state += stateOf(before, false);
    newest.set(change.record, fieldsIn(change.state));
  }
}

/** Bytes of a hash that a number holds exactly. */
const HASH_BYTES = 6;

/** Equal numbers mean equal fields. Of a payload, only what the service would store counts. */
function contentOf(record: Readonly<Record<string, unknown>>): number {
  const isPayload = typeof record["crmCode"] === "string";
  const fingerprint = isPayload ? fingerprintOf(record) : undefined;
  const hash =
    fingerprint === undefined
      ? createHash("sha256").update(JSON.stringify(record)).digest()
      : Buffer.from(fingerprint, "base64url");
  return hash.readUIntBE(0, HASH_BYTES);
}
