/** Which records can be fetched from their CRM, and what requests it; workers/fetch.ts carries it out. */
import { randomUUID } from "node:crypto";
import { CRMS } from "../src/intake/crm/connectors.ts";
import { crmNamed, missingSettings } from "../src/intake/crm/read-whole.ts";
import { isReadable, type FetchedRecord } from "../src/intake/crm/record-reader.ts";
import { ownersIn } from "../src/intake/crm/related.ts";
import { splitSubject, type CrmEvent } from "../src/core/event/crm-event.ts";
import type { Problem } from "../src/core/event/problem.ts";
import { pulledCrms } from "../src/intake/pull/pulled-crms.ts";
import { pulledFrom } from "../src/intake/pull/pulled-events.ts";
import { partsOf } from "../src/core/sync/mapped.ts";
import { crmToFetchFrom, hasRule, type MapPorts } from "../src/core/sync/map-change.ts";
import type { Uses } from "./parts.ts";
import type { TakenThinEvent } from "../src/core/state/thin-events.ts";

export type FetchRequestParts = Uses<"clock" | "config" | "mapping" | "pulls" | "thinEvents">;

/** A record that is older than its event by more than this comes from a copy that lags behind, ms. */
const OLDER_MS = 5000;

type Found = Extract<FetchedRecord, { kind: "found" }>;

/** Whether an event says that its record was deleted. It is fetched all the same: the event may be late. */
export const isDeletion = ({ type }: CrmEvent): boolean => type === "crm.record.deleted";

/** When the change was, by its event; "" if that is not known. */
export const timeOf = ({ order }: Pick<TakenThinEvent, "order">): string =>
  order.split("\t")[0] ?? "";

/** Whether the record is from before its event. Comparable only where the CRM itself has sent the event. */
export function isOlder(
  { source, type }: CrmEvent,
  taken: TakenThinEvent,
  crm: string,
  { modifiedAt = "" }: Found,
): boolean {
  if (!source.startsWith(`/${crm}/`)) return false;
  // What is restored is as it was.
  if (type === "crm.record.restored") return false;
  return Date.parse(timeOf(taken)) - Date.parse(modifiedAt) > OLDER_MS;
}

/** The deletion of a record that the CRM does not have any more. */
export function confirmedDeletion(event: CrmEvent, { order }: TakenThinEvent) {
  const { fetch: _, ...data } = event.data ?? {};
  const time = timeOf({ order });
  return { ...event, id: fetchedId(event), ...(time !== "" && { time }), data };
}

/**
 * The event as if the CRM had sent the record. Its time is the later of the event's own and the
 * record's last change: a fetched record is at least as new as the event that asked for it. The records
 * that it merged were ended when it came: one of them may exist again.
 */
export function wholeEvent(event: CrmEvent, taken: TakenThinEvent, fetched: Found) {
  const { fetch: _, merged: __, of: ___, ...data } = event.data ?? {};
  // An event without a time counts as of its arrival: its record's own time says more.
  const told = event.time === undefined ? (fetched.modifiedAt ?? timeOf(taken)) : timeOf(taken);
  const time = [told, fetched.modifiedAt]
    .filter((at) => at !== undefined && at !== "")
    .toSorted((a, b) => Date.parse(a ?? "") - Date.parse(b ?? ""))
    .at(-1);
  return {
    ...event,
    // A record that the CRM still has was not deleted, or exists again.
    ...((isDeletion(event) || event.type === "crm.record.merged") && {
      type: "crm.record.updated" as const,
    }),
    ...(taken.isLive && { lane: "live" as const }),
    id: fetchedId(event),
    ...(time !== undefined && { time }),
    // An API leaves out what its user may not read, and what it does not know any more.
    data: { ...data, record: fetched.record, partial: true },
  };
}

/**
 * The event of a record to which another one belongs that has changed. When the other one was deleted, its owner may have
 * been deleted with it; otherwise the CRM must have it (`of`).
 */
export function ownersEvent(event: CrmEvent, crm: string, owner: string): CrmEvent {
  return {
    ...event,
    id: `${event.id}+${owner}`.slice(-512),
    type: "crm.record.updated",
    subject: owner,
    data: { fetch: crm, ...(!isDeletion(event) && { of: owner }) },
  };
}

/** Whether an event is one that a fetch has made. */
const isFetched = ({ id }: Pick<CrmEvent, "id">): boolean => /\+record-[0-9a-z]+$/.test(id);

const fetchedId = ({ id }: CrmEvent): string =>
  `${id}+record-${Date.now().toString(36)}`.slice(-512);

/** Whether records of a CRM can be fetched with the present configuration. */
/** As `fetch` of MapPorts. */
export async function requestRecord(
  parts: FetchRequestParts,
  event: CrmEvent,
  order: string,
): ReturnType<MapPorts["fetch"]> {
  const { objects } = parts.mapping;
  const { subject } = event;
  const owners = await requestOwners(parts, event, order);
  // A record with a rule is a relation of its own as well.
  if (owners !== undefined && !hasRule(subject, objects)) return owners;
  if (await readUndated(parts, event, order)) return { problem: undefined };
  const crm = crmToFetchFrom({ event, subject }, objects);
  return crm === undefined ? undefined : { problem: await requestFetch(parts, event, crm, order) };
}

/** Lets an event's record be fetched. @returns why it cannot be. */
async function requestFetch(
  parts: FetchRequestParts,
  event: CrmEvent,
  crm: string,
  order: string,
): Promise<Problem | undefined> {
  const problem = whyNotFetched(parts, event, crm);
  if (problem !== undefined) return problem;
  const { data, lane, subject } = event;
  // A part of the record has changed: more of them may follow.
  const isWhole = data?.of !== undefined;
  const pointer = {
    crm,
    subject,
    ...(isDeletion(event) && { deletion: true as const }),
    ...(isWhole && { role: "whole" as const }),
  };
  const waitMs = isWhole ? parts.config.RELATED_WAIT_MS : 0;
  await parts.thinEvents.put(pointer, order, JSON.stringify(event), lane, waitMs);
  return undefined;
}

/**
 * Lets a record be read again, in the place that its fields have among its events.
 * @param order of these. @returns false when it cannot be read.
 */
export async function fetchAgain(
  parts: FetchRequestParts,
  { source, subject }: Pick<CrmEvent, "source" | "subject">,
  order: string,
): Promise<boolean> {
  const crm = crmOf({ source });
  if (crm === undefined) return false;
  const [time = "", sequence = ""] = order.split("\t");
  const event: CrmEvent = {
    specversion: "1.0",
    id: randomUUID(),
    source,
    type: "crm.record.updated",
    subject,
    ...(time !== "" && { time }),
    ...(sequence !== "" && { sequence }),
    lane: "bulk",
    data: { fetch: crm },
  };
  return (await requestFetch(parts, event, crm, order)) === undefined;
}

/** Which CRM has the record of an event; undefined where the event does not say it. */
const crmOf = ({ data, source }: Pick<CrmEvent, "data" | "source">): string | undefined =>
  data?.fetch ??
  pulledFrom(source) ??
  CRMS.find(({ name }) => `${source}/`.startsWith(`/${name}/`))?.name;

/** So much shorter is the wait for further parts of an object, before it is asked to whom they belong. */
const PARTS_WAIT = 10;

/**
 * Lets the records be read again to which the event's record belongs (`of` in the mapping). Who they are, fetch.ts finds out.
 * @returns undefined where it belongs to none; `problem`: why they cannot be read.
 */
async function requestOwners(
  parts: FetchRequestParts,
  event: CrmEvent,
  order: string,
): Promise<{ problem: Problem | undefined } | undefined> {
  const { config, mapping, thinEvents } = parts;
  const { data, lane, subject } = event;
  const relations = partsOf(mapping.relations, splitSubject(subject).object);
  // A record that was fetched has asked for its owners when its event came.
  if (relations.length === 0 || data?.of !== undefined || isFetched(event)) return undefined;
  const crm = crmOf(event);
  if (crm === undefined) {
    const rule = `must name the record to which ${subject} belongs, with data.record and data.related, or with data.fetch`;
    return { problem: { field: "data.of", rule, kind: "nothing" } };
  }
  const problem = whyNotFetched(parts, event, crm);
  if (problem !== undefined) return { problem };
  const named = relations.flatMap((relation) => ownersIn(data?.record ?? {}, relation));
  await thinEvents.noteOwners({ crm, subject }, named);
  const thin = JSON.stringify({ ...event, data: { fetch: crm } });
  const waitMs = Math.round(config.RELATED_WAIT_MS / PARTS_WAIT);
  await thinEvents.put({ crm, subject, role: "part" }, order, thin, lane, waitMs);
  return { problem: undefined };
}

/**
 * Lets a record be read whose webhook says no time, if its CRM is pulled, too: its state may be older than what was read.
 * A source of the mapping's section `pull` is pulled soon: it reads no single record.
 * @returns false for other events, and where it cannot be read.
 */
async function readUndated(
  parts: FetchRequestParts,
  event: CrmEvent,
  order: string,
): Promise<boolean> {
  const { clock, config, mapping, pulls } = parts;
  const { data, source, subject, time } = event;
  if (time !== undefined || data?.record === undefined || isFetched(event)) return false;
  const pulled = pulledCrms(config, mapping).find(
    ({ name, objects = mapping.objects }) =>
      (source.startsWith("/json/") || `${source}/`.startsWith(`/${name}/`)) &&
      hasRule(subject, objects),
  );
  if (pulled === undefined) return false;
  if (pulled.reader === undefined) {
    await pulls.hurry(pulled.name, clock.now());
    return true;
  }
  const thin = { ...event, data: { fetch: pulled.name } };
  return (await requestFetch(parts, thin, pulled.name, order)) === undefined;
}

function whyNotFetched(
  { config }: FetchRequestParts,
  { subject }: CrmEvent,
  crm: string,
): Problem | undefined {
  const source = crmNamed(crm);
  const kind = "an event without its record";
  if (source === undefined) {
    const known = CRMS.map(({ name }) => name);
    return { field: "data.fetch", rule: `must be one of ${known.join(", ")}`, kind };
  }
  const { object, recordId } = splitSubject(subject);
  if (!isReadable(object) || !isReadable(recordId)) {
    const rule = `must be <object>/<recordId> of letters, digits, _ and -, to be fetched from ${crm}`;
    return { field: "subject", rule, kind: "another text" };
  }
  const missing = missingSettings(config, source);
  if (missing.length === 0) return undefined;
  const rule = `is required; to have it fetched from the CRM, set ${missing.join(", ")}`;
  return { field: "data.record", rule, kind };
}
