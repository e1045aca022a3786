/** Pulls one object of a CRM: what has changed since its cursor, and all of it where the cursor is not known. */
import type { CursorLost, ObjectChanges } from "../crm/change-puller.ts";
import type { ListedRecord, NotListed } from "../crm/record-lister.ts";
import type { NotFound, RecordApi, RecordReader } from "../crm/record-reader.ts";
import { withRelated } from "../crm/related.ts";
import type { CrmRecords, ObjectRecords } from "../crm/connector.ts";
import type { ContentHash } from "../event/event-order.ts";
import type { PulledIds, PulledObject } from "../state/pulls.ts";
import type { Relation } from "../sync/mapped.ts";
import { eventOfChange, eventOfListed, type PulledEvent } from "./pulled-events.ts";

/** A CRM dates a change before it can be listed, and its clock may be behind ours, ms. */
const MARGIN_MS = 30_000;

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
  readonly ids: PulledIds;
  /** The present time, ms, by the clock of Redis. */
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
    this.pauseMs = answer.kind === "throttled" ? answer.retryAfterMs : 0;
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
  const now = pull.now();
  const cursor = await changes.begin(now);
  if (typeof cursor !== "string") throw new PullFailed(pull.object, cursor);
  return { cursor, listing: { asOf: now - MARGIN_MS, records: 0 } };
}

async function pullChanges(
  pull: ObjectToPull,
  changes: ObjectChanges,
  from: PulledObject,
): Promise<{ readonly kind: "pulled"; readonly progress: PulledObject } | CursorLost | NotFound> {
  let progress = from;
  for (;;) {
    const askedAt = pull.now();
    const page = await changes.page(progress.cursor, askedAt);
    if (page.kind === "cursor_lost" || page.kind === "not_found") return page;
    if (page.kind !== "page") throw new PullFailed(pull.object, page);
    if (page.hasMore && page.cursor === progress.cursor) throw new PullFailed(pull.object, ENDLESS);
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
  while (await pull.mayList()) {
    const page = await all.list(listing.cursor);
    if (page.kind !== "page") {
      // The CRM may not know the place any more: the next pull lists from the beginning.
      if (page.kind === "client_error" && listing.cursor !== undefined) {
        const { cursor: _, ...again } = listing;
        await pull.keep({ ...progress, listing: { ...again, records: 0 } });
      }
      throw new PullFailed(object, page);
    }
    const { asOf }: { asOf: number } = listing;
    const records = await whole(pull, page.records);
    await pull.push(records.map((record) => eventOfListed(record, asOf, pull)));
    if (page.next === undefined) {
      await pull.keep(progress);
      return "done";
    }
    if (page.next === listing.cursor) throw new PullFailed(object, ENDLESS);
    listing = { asOf, cursor: page.next, records: listing.records + page.records.length };
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
