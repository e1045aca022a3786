/** A snapshot as the events that it stands for: intake's own code then maps and checks them. */
import { isObject } from "../../core/event/problem.ts";
import type { CrmEvent } from "../../core/event/crm-event.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { UserError } from "../../base/user-error.ts";
import { inputOfRecord, type ReadOptions } from "../preview/read-records.ts";
import { readSnapshot, type Snapshot } from "../../intake/snapshot/read-snapshot.ts";
import type { Item } from "../../intake/snapshot/item.ts";

/** The source of events that are made from records. */
export const SOURCE = "/reconcile";

export type RecordOptions = Pick<ReadOptions, "idFrom" | "object">;

/** One event, before its envelope is checked. */
export interface SnapshotEvent {
  readonly place: string;
  /** Its number in the snapshot, from 0. */
  readonly position: number;
  readonly event: Readonly<Record<string, unknown>>;
  /** False when the record does not contain its id. */
  readonly hasId: boolean;
  /** Of a row of CSV: a record that has all columns. */
  readonly header?: Item["header"];
}

/** @param asOf when the snapshot was taken, ms: no event in it counts as later. */
export async function* readEvents(
  snapshot: Snapshot,
  mapping: Mapping,
  options: RecordOptions,
  asOf: number,
): AsyncGenerator<SnapshotEvent> {
  const time = new Date(asOf).toISOString();
  let position = 0;
  for await (const item of readSnapshot(snapshot)) {
    yield eventOf(item, position, time, mapping, options);
    position += 1;
  }
}

function eventOf(
  { header, place, value }: Item,
  position: number,
  time: string,
  mapping: Mapping,
  options: RecordOptions,
): SnapshotEvent {
  if (!isObject(value)) throw new UserError(`${place} is neither a record nor an event`);
  if ("specversion" in value) {
    const own = value["time"];
    const isEarlier = typeof own === "string" && Date.parse(own) < Date.parse(time);
    const event = { ...value, lane: "bulk", ...(isEarlier ? {} : { time }) };
    return { place, position, event, hasId: true };
  }
  const { context, hasId } = inputOfRecord(place, value, mapping, { ...options, source: SOURCE });
  const { type, source, subject } = context;
  const event: CrmEvent = {
    specversion: "1.0",
    id: String(position),
    source,
    type: type as CrmEvent["type"],
    subject,
    time,
    lane: "bulk",
    data: { record: { ...value } },
  };
  return { place, position, event, hasId, ...(header && { header }) };
}
