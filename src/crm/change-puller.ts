/** Asks a CRM's API what has changed since a cursor, page by page: webhooks get lost, or cannot reach us. */
import { timeOf, type Json } from "./json-value.ts";
import { NO_LIST, type ListedPage, type ListedRecord, type NotListed } from "./record-lister.ts";

export interface ObjectChanges {
  /** A cursor for all that changes from now on. @param now the present time, ms. */
  begin(now: number): Promise<string | NotListed>;
  /** @param cursor of the page before, or the one with which the last pull ended. */
  page(cursor: string, now: number): Promise<ChangesPage | CursorLost | NotListed>;
  /**
   * A page with the ids of all records, where the API does not tell what was deleted: a record that a later list lacks is read, and
   * is deleted if the CRM says that it has none.
   */
  ids?(cursor: string | undefined): Promise<ListedPage | NotListed>;
}

export interface ChangesPage {
  readonly kind: "page";
  readonly changes: readonly PulledChange[];
  /** Ask with it again: at once if there is more, else at the next pull. */
  readonly cursor: string;
  readonly hasMore: boolean;
}

export interface PulledChange {
  readonly id: string;
  /** As an event of the same CRM brings it, or its fetch. Absent: it was deleted. */
  readonly record?: Json;
  /**
   * When it changed, by the clock that also dates this CRM's webhook events, ISO 8601. Undefined: as of the request that
   * has read it.
   */
  readonly at: string | undefined;
  /** The time by which the CRM was asked, if `at` is another one. */
  readonly askedBy?: string | undefined;
}

/** The CRM does not know the cursor any more: what changed since cannot be asked for. */
export interface CursorLost {
  readonly kind: "cursor_lost";
}

/** What changes from now on may be dated so much earlier: a transaction was open, or an index lags behind, ms. */
const OVERLAP_MS = 300_000;

/** One page of what has changed since a time. */
export interface TimedPage {
  readonly kind: "page";
  readonly changes: readonly PulledChange[];
  /** Undefined: the last one. */
  readonly next: string | undefined;
}

/**
 * The changes of a page.
 * @param changesOf what a record tells; undefined: it does not say when it changed, so this is not the CRM's list.
 * @param place how the place of the next page is written
 */
export function toTimedPage(
  page: ListedPage | NotListed,
  changesOf: (listed: ListedRecord) => PulledChange | readonly PulledChange[] | undefined,
  place = (next: string | undefined) => next,
): TimedPage | NotListed {
  if (page.kind !== "page") return page;
  const told = page.records.map(changesOf);
  if (told.includes(undefined)) return NO_LIST;
  const changes = told.flat().filter((change) => change !== undefined);
  return { kind: "page", changes, next: place(page.next) };
}

/**
 * For APIs that are asked by the time of a record's last change: each pull begins a few minutes before the newest change of
 * the one before. What comes twice is the same event.
 * @param ask `since`: ISO 8601 in UTC, with milliseconds; `next` of the page before, undefined for the first page.
 */
export function changesByTime(
  ask: (since: string, next: string | undefined) => Promise<TimedPage | NotListed>,
): ObjectChanges {
  return {
    begin: async (now) => JSON.stringify({ since: iso(now - OVERLAP_MS) }),
    async page(cursor, now) {
      const { newest = "", next, since } = JSON.parse(cursor) as TimeCursor;
      let answer = await ask(since, next);
      // The CRM may not know the place of a page any more: the pull begins again.
      const isForgotten = next !== undefined && answer.kind === "client_error";
      if (isForgotten && !("isDenied" in answer)) answer = await ask(since, undefined);
      if (answer.kind !== "page") return answer;
      const { changes, next: more } = answer;
      const times = changes.map(({ askedBy, at }) => timeOf(askedBy ?? at) ?? "");
      // A record that is dated ahead must not hide what changes meanwhile.
      const until = [newest, ...times].filter((time) => time <= iso(now)).toSorted();
      const last = until.at(-1) ?? "";
      if (more !== undefined) {
        const place: TimeCursor = { since, newest: last, next: more };
        return { kind: "page", changes, cursor: JSON.stringify(place), hasMore: true };
      }
      const from = last === "" ? since : iso(Date.parse(last) - OVERLAP_MS);
      const place: TimeCursor = { since: from > since ? from : since };
      return { kind: "page", changes, cursor: JSON.stringify(place), hasMore: false };
    },
  };
}

interface TimeCursor {
  readonly since: string;
  /** Of the pages so far. */
  readonly newest?: string;
  readonly next?: string;
}

const iso = (ms: number): string => new Date(ms).toISOString();
