/** Redtail: contacts, which are individuals, businesses, trusts, associations and unions. Its webhooks are not documented. */
import { isObject } from "../../core/event/problem.ts";
import { changesByTime, toTimedPage, type PulledChange } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { lastMomentOf, textOf, timeOf, type Json } from "./json-value.ts";
import { pageNumberOf, toNumberedPage } from "./numbered-pages.ts";
import type { ListedPage, ListedRecord, NotListed } from "./record-lister.ts";
import { addressOf, toFetchedRecord, UNKNOWN_OBJECT, type RecordApi } from "./record-reader.ts";

/** The only object. */
const CONTACT = "contact";

export const redtail: CrmSource = {
  name: "redtail",
  needs: ["REDTAIL_API_URL", "REDTAIL_API_KEY", "REDTAIL_USER_KEY"],
  // Redtail documents no limit.
  pauseMs: 500,

  reader: {
    async fetchRecord(api, _object, recordId) {
      const result = await api.get(addressFor(api, "contacts", recordId), headersOf(api));
      return toFetchedRecord(result, {
        recordId,
        at: ["contact"],
        id: "id",
        modifiedAt: changedAt,
        isDeleted: (contact) => contact["deleted"] === true,
        isAboutRecord: ({ body }) =>
          isObject(body) && /\bnot found\b/i.test(textOf(body["message"])),
      });
    },
  },

  async open(api, object) {
    if (object !== CONTACT) return UNKNOWN_OBJECT;
    const list = (place: string | undefined) => livingPage(api, place);
    const changes = changesByTime(api, async (since, place) =>
      toTimedPage(
        await listPage(api, "contacts/search", { updated_since: since }, place),
        changeOf,
      ),
    );
    return { kind: "records", list, timeOf: changedAt, changes: { ...changes, ids: list } };
  },
};

const changedAt = (record: Json): string | undefined => lastMomentOf(record["updated_at"]);

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
  return toNumberedPage(result, "total_records", place);
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

function changeOf({ id, record }: ListedRecord): PulledChange | undefined {
  const askedBy = timeOf(record["updated_at"]);
  if (askedBy === undefined) return undefined;
  return { id, at: changedAt(record), askedBy, ...(record["deleted"] !== true && { record }) };
}
