/** Redtail: contacts, which are individuals, businesses, trusts, associations and unions. Its webhooks are not documented. */
import { changesByTime, type PulledChange, type TimedPage } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { isObject, textOf, timeOf } from "./json-value.ts";
import { pageNumberOf, toNumberedPage } from "./numbered-pages.ts";
import { NO_LIST, type ListedPage, type NotListed } from "./record-lister.ts";
import { addressOf, toFetchedRecord, UNKNOWN_OBJECT, type RecordApi } from "./record-reader.ts";

const NEEDS = ["REDTAIL_API_URL", "REDTAIL_API_KEY", "REDTAIL_USER_KEY"];

/** The only object. */
const CONTACT = "contact";

export const redtail: CrmSource = {
  name: "redtail",

  reader: {
    needs: NEEDS,
    async fetchRecord(api, _object, recordId) {
      const result = await api.get(addressFor(api, "contacts", recordId), headersOf(api));
      return toFetchedRecord(result, {
        recordId,
        at: ["contact"],
        id: "id",
        modifiedAt: "updated_at",
        isDeleted: (contact) => contact["deleted"] === true,
        isAboutRecord: ({ body }) =>
          isObject(body) && /\bnot found\b/i.test(textOf(body["message"])),
      });
    },
  },

  lister: {
    needs: NEEDS,
    // Redtail documents no limit.
    pauseMs: 500,
    open: async (api, object) => {
      if (object !== CONTACT) return UNKNOWN_OBJECT;
      return {
        kind: "listing",
        page: (place) => livingPage(api, place),
      };
    },
  },

  puller: {
    open: async (api, object) => {
      if (object !== CONTACT) return UNKNOWN_OBJECT;
      return {
        ...changesByTime((since, place) => changedSince(api, since, place)),
        async ids(place) {
          const page = await livingPage(api, place);
          if (page.kind !== "page") return page;
          return { kind: "page", ids: page.records.map(({ id }) => id), next: page.next };
        },
      };
    },
  },
};

const addressFor = (api: RecordApi, ...path: readonly string[]): string =>
  addressOf(api.setting("REDTAIL_API_URL"), "/api/public/v1", ...path);

function headersOf(api: RecordApi) {
  const keys = `${api.setting("REDTAIL_API_KEY")}:${api.setting("REDTAIL_USER_KEY")}`;
  const authorization = `Userkeyauth ${Buffer.from(keys).toString("base64")}`;
  return { authorization, include: "addresses,phones,emails" };
}

async function listPage(
  api: RecordApi,
  path: string,
  more: Readonly<Record<string, string>>,
  place: string | undefined,
): Promise<ListedPage | NotListed> {
  const query = new URLSearchParams({ ...more, page: String(pageNumberOf(place)) });
  const url = `${addressFor(api, ...path.split("/"))}?${query.toString()}`;
  const result = await api.get(url, { ...headersOf(api), pagesize: "100" });
  return toNumberedPage(result, { list: "contacts", total: "total_records" }, place);
}

async function livingPage(
  api: RecordApi,
  place: string | undefined,
): Promise<ListedPage | NotListed> {
  const page = await listPage(api, "contacts", {}, place);
  if (page.kind !== "page") return page;
  const records = page.records.filter(({ record }) => record["deleted"] !== true);
  return { ...page, records, deleted: page.records.length - records.length };
}

async function changedSince(
  api: RecordApi,
  since: string,
  place: string | undefined,
): Promise<TimedPage | NotListed> {
  const page = await listPage(api, "contacts/search", { updated_since: since }, place);
  if (page.kind !== "page") return page;
  const changes: PulledChange[] = [];
  for (const { id, record } of page.records) {
    const at = timeOf(record["updated_at"]);
    if (at === undefined) return NO_LIST;
    changes.push(record["deleted"] === true ? { id, at } : { id, at, record });
  }
  return { kind: "page", changes, next: page.next };
}
