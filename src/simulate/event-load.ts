/**
 * Makes changes of past events. A record is what the events name as one crmCode or one subject; its
 * state is the content of its newest fields, and whether it is terminated. The fields are compared
 * as they came: no mapping is applied.
 */
import { contentHashWith, eventKey, hashWith } from "../event/event-order.ts";
import type { CrmEvent } from "../event/crm-event.ts";
import { fingerprintOf } from "../sync/fingerprint.ts";
import type { Change } from "./waiting-records.ts";

/** A change whose state lacks the fields that came before it, if it brings none itself. */
interface LoadedChange extends Required<Change> {
  state: string;
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
  #outOfOrder = 0;

  add(event: CrmEvent, at: number): void {
    this.#events += 1;
    const key = eventKey(event) + hashOf(event);
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const { data, lane, subject, type } = event;
    for (const merged of data?.merged ?? []) {
      const record = this.#recordOf(merged, undefined);
      this.#changes.push({ at, record, lane, state: TERMINATED, bare: true, creates: false });
    }
    const record = this.#recordOf(subject, data?.record?.["crmCode"]);
    const newest = this.#newest[record] ?? at;
    if (at < newest) this.#outOfOrder += 1;
    this.#newest[record] = Math.max(at, newest);
    const fields = fieldsOf(data, key);
    const state = `${fields ?? ""}${type === "crm.record.deleted" ? TERMINATED : ""}`;
    const creates = type === "crm.record.created";
    this.#changes.push({ at, record, lane, state, bare: fields === undefined, creates });
  }

  load() {
    const changes = this.#changes.sort((a, b) => a.at - b.at);
    // An event without fields keeps those that came before it.
    const fields = new Map<number, string>();
    for (const change of changes) {
      if (change.bare) change.state = `${fields.get(change.record) ?? ""}${change.state}`;
      fields.set(change.record, change.state.replace(TERMINATED, ""));
    }
    return {
      /** In the order of their times. */
      changes,
      events: this.#events,
      records: this.#newest.length,
      /** Events that came before, with the same source, id and content: crmsync ignores them. */
      duplicates: this.#events - this.#seen.size,
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
}

/** Ends the state of a relation that is terminated; what comes before it stands for the fields. */
const TERMINATED = "!";

/** Characters of the hash of a record that is no payload. */
const HASH_LENGTH = 12;

/** Equal texts mean equal fields. Of a payload, only what the service would store counts. */
function fieldsOf(data: CrmEvent["data"], eventKey: string): string | undefined {
  // What the record contained that was to be fetched is not known: it counts as new.
  if (data?.record === undefined) return data?.fetch === undefined ? undefined : eventKey;
  const isPayload = typeof data.record["crmCode"] === "string";
  const fingerprint = isPayload ? fingerprintOf(data.record) : undefined;
  return fingerprint ?? hashWith(undefined, JSON.stringify(data.record), HASH_LENGTH);
}
