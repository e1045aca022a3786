/** Wealthbox: contacts, which are persons, households, organizations and trusts. It has no webhooks. */
import { changesByTime, toTimedPage, type TimedPage } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { timeOf } from "./json-value.ts";
import { pageNumberOf, toNumberedPage } from "./numbered-pages.ts";
import type { ListedPage, ListedRecord, NotListed } from "./record-lister.ts";
import { addressOf, toFetchedRecord, UNKNOWN_OBJECT, type RecordApi } from "./record-reader.ts";

/** The only object. */
const CONTACT = "contact";

/** Begins the place of a page of deletions. */
const DELETED = "deleted:";

export const wealthbox: CrmSource = {
  name: "wealthbox",
  needs: ["WEALTHBOX_API_URL", "WEALTHBOX_API_TOKEN"],
  // Wealthbox allows 300 requests in five minutes.
  pauseMs: 1500,

  reader: {
    async fetchRecord(api, _object, recordId) {
      const url = addressOf(api.setting("WEALTHBOX_API_URL"), "/v1/contacts", recordId);
      // Without `modifiedAt`: Wealthbox's times have whole minutes.
      return toFetchedRecord(await api.get(url, headersOf(api)), { recordId, id: "id" });
    },
  },

  async open(api, object) {
    if (object !== CONTACT) return UNKNOWN_OBJECT;
    return {
      kind: "records",
      list: (place) => listPage(api, {}, place),
      changes: changesByTime(api, (since, next) =>
        next?.startsWith(DELETED) === true
          ? deletedSince(api, since, next.slice(DELETED.length) || undefined)
          : changedSince(api, since, next),
      ),
    };
  },
};

const headersOf = (api: RecordApi) => ({ ACCESS_TOKEN: api.setting("WEALTHBOX_API_TOKEN") });

/** By creation: sorted by change, records would move to other pages. */
async function listPage(
  api: RecordApi,
  more: Readonly<Record<string, string>>,
  place: string | undefined,
): Promise<ListedPage | NotListed> {
  const page = String(pageNumberOf(place));
  const query = new URLSearchParams({ ...more, order: "created", per_page: "100", page });
  const url = `${addressOf(api.setting("WEALTHBOX_API_URL"), "/v1/contacts")}?${query.toString()}`;
  const result = await api.get(url, headersOf(api));
  return toNumberedPage(result, "total_count", place);
}

async function changedSince(
  api: RecordApi,
  since: string,
  place: string | undefined,
): Promise<TimedPage | NotListed> {
  const page = await listPage(api, { updated_since: toSeconds(since) }, place);
  const changeOf = ({ id, record }: ListedRecord) => {
    const askedBy = timeOf(record["updated_at"]);
    // A time of whole minutes may be older than a listing that has the record as it was before.
    return askedBy === undefined ? undefined : { id, record, at: undefined, askedBy };
  };
  return toTimedPage(page, changeOf, (next = DELETED) => next);
}

async function deletedSince(
  api: RecordApi,
  since: string,
  place: string | undefined,
): Promise<TimedPage | NotListed> {
  const asked = { deleted: "true", deleted_since: toSeconds(since) };
  const page = await listPage(api, asked, place);
  const changeOf = ({ id }: ListedRecord) => ({ id, at: undefined });
  return toTimedPage(page, changeOf, (next) => next && DELETED + next);
}

const toSeconds = (time: string): string => `${time.slice(0, 19)}Z`;
