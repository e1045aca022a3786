/** Pulls one object of a CRM: what has changed since its cursor, and all of it where the cursor is not known. */
import type { CursorLost, ObjectChanges, PulledChange } from "../crm/change-puller.ts";
import type { ListedRecord, NotListed } from "../crm/record-lister.ts";
import type { NotFound, RecordApi, RecordReader } from "../crm/record-reader.ts";
import { withRelated } from "../crm/related.ts";
import type { CrmRecords, ObjectRecords } from "../crm/connector.ts";
import type { ContentHash } from "../../core/event/event-order.ts";
import type { PulledIds, PulledObject } from "../../core/state/pulls.ts";
import type { Relation } from "../../core/sync/mapped.ts";
import { eventOfChange, eventOfListed, type PulledEvent } from "./pulled-events.ts";

/** Records that are missing in the list and asked for in one pull; the others are at the next ones. */
const MOST_GONE = 500;

export interface ObjectToPull {
  readonly crm: string;
  readonly object: string;
  readonly open: CrmRecords["open"];
  readonly reader: RecordReader | undefined;
  readonly api: RecordApi;
  /** Names that the mapping reads. */
  readonly fields: ReadonlySet<string>;
  readonly contentOf: ContentHash;
  /** Its records need others beside them, which the CRM is asked for. */
  readonly isThin: boolean;
  readonly relations: readonly Relation[];
  /** Notes to which record another one belongs, as subjects. */
  notePart(part: string, owner: string): void;
  /** Is told which records came without the time of their last change, although this CRM's have one. */
  noteUndated(recordIds: readonly string[]): void;
  readonly ids: PulledIds;
  /** Our present time, ms: that of Redis. */
  now(): number;
  /** Resolves once the events are durable. */
  push(events: readonly PulledEvent[]): Promise<void>;
  /** Keeps how far it has come: the events before are durable. */
  keep(progress: PulledObject): Promise<void>;
  /** Whether a page of a listing may be asked for now. */
  mayList(): Promise<boolean>;
}

/** `unknown_object`: the CRM has no such object. `listing`: there is more to list. */
export type PullEnd = "done" | "listing" | "unknown_object" | "cursor_lost";

/** The CRM did not answer as it should. */
export class PullFailed extends Error {
  /** It asks for a pause of so long, ms. */
  readonly pauseMs: number;
  constructor(object: string, answer: NotListed) {
    super(`${object}: ${whyOf(answer)}`);
    this.pauseMs = ("retryAfterMs" in answer && answer.retryAfterMs) || 0;
  }
}

/** @throws PullFailed; what was kept until then counts. */
export async function pullObject(
  pull: ObjectToPull,
  known: PulledObject | undefined,
): Promise<PullEnd> {
  const { api, fields, object } = pull;
  const records = await pull.open(api, object, fields);
  if (records.kind === "not_found") return "unknown_object";
  if (records.kind !== "records") throw new PullFailed(object, records);
  const { changes } = records;
  const pulled = await pullChanges(pull, changes, known ?? (await begin(pull, changes)));
  if (pulled.kind === "not_found") {
    if (known === undefined) return "unknown_object";
    throw new PullFailed(object, pulled);
  }
  if (pulled.kind === "cursor_lost") {
    await pull.keep(await begin(pull, changes));
    return "cursor_lost";
  }
  await pullDeletions(pull, changes);
  return list(pull, records, pulled.progress);
}

/** From now on; what was before is listed. */
async function begin(pull: ObjectToPull, changes: ObjectChanges): Promise<PulledObject> {
  const begun = await changes.begin(pull.now());
  if (begun.kind !== "begun") throw new PullFailed(pull.object, begun);
  return { cursor: begun.cursor, listing: { since: begun.since, records: 0 } };
}

/** The CRM does not know the place of a page any more, for instance after a while: it is asked for the first one once more. */
const isRefused = (answer: NotListed | CursorLost | { readonly kind: "page" }): boolean =>
  answer.kind === "not_found" || (answer.kind === "client_error" && answer.isDenied !== true);

async function pullChanges(
  pull: ObjectToPull,
  changes: ObjectChanges,
  from: PulledObject,
): Promise<{ readonly kind: "pulled"; readonly progress: PulledObject } | CursorLost | NotFound> {
  let progress = from;
  for (let restarts = 0; ;) {
    const askedAt = pull.now();
    const page = await changes.page(progress.cursor, askedAt);
    const first = isRefused(page) ? changes.restart(progress.cursor) : undefined;
    if (first !== undefined) {
      progress = { ...progress, cursor: first };
      await pull.keep(progress);
      restarts += 1;
      if (restarts === 1) continue;
    }
    if (first !== undefined && page.kind === "not_found") throw new PullFailed(pull.object, page);
    if (page.kind === "cursor_lost" || page.kind === "not_found") return page;
    if (page.kind !== "page") throw new PullFailed(pull.object, page);
    if (page.hasMore && page.cursor === progress.cursor) throw new PullFailed(pull.object, ENDLESS);
    const isUndated = ({ askedBy, at, record }: PulledChange) =>
      record !== undefined && at === undefined && askedBy === "";
    pull.noteUndated(page.changes.filter(isUndated).map(({ id }) => id));
    await pull.push(page.changes.map((change) => eventOfChange(change, askedAt, pull)));
    progress = { ...progress, cursor: page.cursor };
    await pull.keep(progress);
    if (!page.hasMore) return { kind: "pulled", progress };
  }
}

/** A record that the new list of ids lacks is deleted only if the CRM says so of this record. */
async function pullDeletions(pull: ObjectToPull, changes: ObjectChanges): Promise<void> {
  const { api, fields, ids, object, reader } = pull;
  if (changes.ids === undefined) return;
  await ids.begin();
  let cursor: string | undefined;
  do {
    const page = await changes.ids(cursor);
    if (page.kind !== "page") throw new PullFailed(object, page);
    if (page.next === cursor && cursor !== undefined) throw new PullFailed(object, ENDLESS);
    await ids.add(page.records.map(({ id }) => id));
    cursor = page.next;
  } while (cursor !== undefined);
  const gone = await ids.gone();
  const still = gone.slice(MOST_GONE);
  for (const id of gone.slice(0, MOST_GONE)) {
    const askedAt = pull.now();
    const found = await reader?.fetchRecord(api, object, id, fields);
    if (found?.kind === "missing") {
      await pull.push([eventOfChange({ id, at: undefined }, askedAt, pull)]);
    } else still.push(id);
  }
  await ids.replace(still);
}

async function list(pull: ObjectToPull, all: ObjectRecords, from: PulledObject): Promise<PullEnd> {
  const { object } = pull;
  let { listing, ...progress } = from;
  if (listing === undefined) return "done";
  const { since } = listing;
  // With those that belong to it, a record may be newer than its own time says.
  const timeOf = pull.isThin ? undefined : all.timeOf;
  for (let restarts = 0; await pull.mayList();) {
    const page = await all.list(listing.cursor);
    if (page.kind !== "page") {
      if (isRefused(page) && listing.cursor !== undefined) {
        listing = { since, records: 0 };
        await pull.keep({ ...progress, listing });
        restarts += 1;
        if (restarts === 1) continue;
      }
      throw new PullFailed(object, page);
    }
    const records = await whole(pull, page.records);
    const times = new Map(records.map(({ id, record }) => [id, timeOf?.(record)]));
    const undated = records.filter(({ id }) => times.get(id) === undefined);
    if (timeOf !== undefined) pull.noteUndated(undated.map(({ id }) => id));
    const from = new Date(since).toISOString();
    const eventOf = (one: ListedRecord) => eventOfListed(one, times.get(one.id) ?? from, pull);
    await pull.push(records.map(eventOf));
    if (page.next === undefined) {
      await pull.keep(progress);
      return "done";
    }
    if (page.next === listing.cursor) throw new PullFailed(object, ENDLESS);
    listing = { since, cursor: page.next, records: listing.records + page.records.length };
    await pull.keep({ ...progress, listing });
  }
  return "listing";
}

/** With those that belong to them: read for a page at once. */
async function whole(pull: ObjectToPull, records: readonly ListedRecord[]) {
  if (!pull.isThin) return records;
  const { api, crm, fields: reads, object, relations } = pull;
  const notePart = (part: string, owner: string) => pull.notePart(part, owner);
  const found = await withRelated(api, crm, object, records, { notePart, reads, relations });
  if ("kind" in found) throw new PullFailed(object, found);
  return found;
}

const ENDLESS: NotListed = {
  kind: "not_a_list",
  reason: "the CRM answers with the same page again and again",
};

function whyOf(answer: NotListed): string {
  switch (answer.kind) {
    case "not_found":
      return `HTTP ${answer.status} ${answer.code ?? ""}`.trim();
    case "throttled":
      return `it allows no request for ${Math.ceil(answer.retryAfterMs / 1000)} s`;
    case "client_error":
    case "unavailable":
    case "not_a_list":
      return answer.reason;
  }
}
