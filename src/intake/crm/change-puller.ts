/** Asks a CRM's API what has changed since a cursor, page by page: webhooks get lost, or cannot reach us. */
import { timeOf, type Json } from "./json-value.ts";
import { NO_LIST, type ListedPage, type ListedRecord, type NotListed } from "./record-lister.ts";
import type { RecordApi } from "./record-reader.ts";

export interface ObjectChanges {
  /** Where the changes from now on begin. @param now our present time, ms. */
  begin(now: number): Promise<Begun | NotListed>;
  /** @param cursor of the page before, or the one with which the last pull ended. @param now our present time, ms. */
  page(cursor: string, now: number): Promise<ChangesPage | CursorLost | NotListed>;
  /** The cursor with which the pull of this page began; undefined: it is that one. */
  restart(cursor: string): string | undefined;
  /**
   * A page with the ids of all records, where the API does not tell what was deleted: a record that a later list lacks is read, and
   * is deleted if the CRM says that it has none.
   */
  ids?(cursor: string | undefined): Promise<ListedPage | NotListed>;
}

export interface Begun {
  readonly kind: "begun";
  readonly cursor: string;
  /** The pulled changes begin at this time, ms, by the CRM's clock. */
  readonly since: number;
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
   * When it changed, by the clock that also dates this CRM's webhook events, ISO 8601: of a time without fractions, the
   * last moment that it may mean (lastMomentOf). Undefined: as of the request that has read it.
   */
  readonly at: string | undefined;
  /** The record's time by which the CRM was asked, if `at` is another one; "": it has none. */
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
 * the one before, and never later than that before the moment when the one before asked for its first page. What comes twice
 * is the same event.
 * @param ask `since`: ISO 8601 in UTC, with milliseconds; `next` of the page before, undefined for the first page.
 */
export function changesByTime(
  { skewMs }: Pick<RecordApi, "skewMs">,
  ask: (since: string, next: string | undefined) => Promise<TimedPage | NotListed>,
  overlapMs = OVERLAP_MS,
): ObjectChanges {
  // By the earlier one of the two clocks: the CRM compares with its own, of which a gateway's may tell nothing.
  const earlier = (now: number) => now + Math.min(0, skewMs() ?? 0);
  return {
    async begin(now) {
      const since = earlier(now) - overlapMs;
      const cursor: TimeCursor = { since: iso(since), isNew: true };
      return { kind: "begun", cursor: JSON.stringify(cursor), since };
    },
    restart(cursor) {
      const { next, since } = JSON.parse(cursor) as TimeCursor;
      return next === undefined ? undefined : JSON.stringify({ since } satisfies TimeCursor);
    },
    async page(cursor, now) {
      const { isNew, newest = "", next, since, ...place } = JSON.parse(cursor) as TimeCursor;
      const answer = await ask(since, next);
      if (answer.kind !== "page") return answer;
      const { asked = iso(earlier(now)) } = place;
      // A clock was ahead when it was noted: what changed since is not known.
      if (since > asked && next === undefined && isNew !== true) return { kind: "cursor_lost" };
      const { changes, next: more } = answer;
      const times = changes.map(({ askedBy, at }) => timeOf(askedBy ?? at) ?? "");
      // A record that changes while its pages are read, or that is dated ahead, must not hide what changes meanwhile.
      const known = [newest, ...times].filter((time) => time <= asked).toSorted();
      const last = known.at(-1) ?? "";
      if (more !== undefined) {
        const then: TimeCursor = { since, asked, newest: last, next: more };
        return { kind: "page", changes, cursor: JSON.stringify(then), hasMore: true };
      }
      const from = last === "" ? since : iso(Date.parse(last) - overlapMs);
      const latest = iso(Date.parse(asked) - overlapMs);
      const then: TimeCursor = {
        since: [from > since ? from : since, latest].toSorted()[0] ?? since,
      };
      return { kind: "page", changes, cursor: JSON.stringify(then), hasMore: false };
    },
  };
}

/** Times are ISO 8601 in UTC, by the CRM's clock. */
interface TimeCursor {
  readonly since: string;
  /** The CRM's clock was not known when it was noted, and all records are listed. */
  readonly isNew?: true;
  /** When the first page was asked for. */
  readonly asked?: string;
  /** The newest change of the pages so far. */
  readonly newest?: string;
  readonly next?: string;
}

const iso = (ms: number): string => new Date(ms).toISOString();
