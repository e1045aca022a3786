/**
 * Reads and lists EspoCRM's records, and asks what has changed. A page begins after the last record of the one before: by
 * number, records would be left out when one of an earlier page is deleted or changed meanwhile.
 */
import { isObject } from "../../core/event/problem.ts";
import { changesByTime, toTimedPage, type TimedPage } from "./change-puller.ts";
import type { CrmSource } from "./connector.ts";
import { textOf, timeOf } from "./json-value.ts";
import {
  NO_LIST,
  toPage,
  type ListedPage,
  type ListedRecord,
  type NotListed,
  type RelationReader,
} from "./record-lister.ts";
import {
  addressOf,
  notAboutRecord,
  toFetchedRecord,
  type FetchedRecord,
  type NotFound,
  type RecordApi,
} from "./record-reader.ts";

export const espocrmRecords: Omit<CrmSource, "name"> = {
  needs: ["ESPOCRM_URL", "ESPOCRM_API_KEY"],
  pauseMs: 50,
  reader: { fetchRecord: readRecord },
  async open(api, object, fields) {
    const list = await listOf(api, object, fields);
    if (typeof list !== "function") return list;
    return {
      kind: "records",
      list: (after) => list({ where: idsAfter(after), isCounted: after === undefined }),
      changes: {
        ...changesByTime(api, (since, next) => changedSince(list, toSeconds(since), next)),
        ids: (after) => listPage(api, object, { where: idsAfter(after), select: "id" }),
      },
    };
  },
};

/** Records of an object, in the order of a field and then of their ids. */
interface Selection {
  readonly where?: readonly Where[];
  /** By default the id. */
  readonly orderBy?: string;
  readonly select?: string;
  /** Whether EspoCRM shall say how many there are in all. */
  readonly isCounted?: boolean;
}

/** An item of EspoCRM's search parameters. */
interface Where {
  readonly type: string;
  readonly attribute?: string;
  readonly value?: string | readonly string[] | readonly Where[];
}

const idsAfter = (after: string | undefined): Where[] =>
  after === undefined ? [] : [{ type: "greaterThan", attribute: "id", value: after }];

type List = (selection: Selection) => Promise<EspocrmPage | NotListed>;

/** How the object is listed: with whole records, whatever lists leave out. */
async function listOf(
  api: RecordApi,
  object: string,
  fields: ReadonlySet<string>,
): Promise<List | NotListed> {
  const first = await listPage(api, object, { isCounted: true }, 1);
  if (first.kind !== "page") return first;
  const [listed] = first.records;
  const whole = listed && (await readRecord(api, object, listed.id));
  if (whole?.kind === "missing") {
    return { kind: "unavailable", reason: "a record was deleted while it was listed" };
  }
  if (whole !== undefined && whole.kind !== "found") return whole;
  // Lists leave out fields of several values, such as emailAddressData.
  const isPart =
    whole !== undefined &&
    [...fields].some((name) => name in whole.record && !(name in (listed?.record ?? {})));
  return (selection) => (isPart ? readEach : listPage)(api, object, selection);
}

interface EspocrmPage extends ListedPage {
  /** The records as the list has them, those included that were deleted since. */
  readonly listed: ListedPage["records"];
}

/** EspoCRM's own limit, unless its administrator has set another one. */
const RECORDS_A_PAGE = 200;

/** Records in a page when each is read by itself. */
const READ_A_PAGE = 20;

export const headersOf = (api: RecordApi) => ({ "x-api-key": api.setting("ESPOCRM_API_KEY") });

async function readRecord(
  api: RecordApi,
  object: string,
  recordId: string,
): Promise<FetchedRecord> {
  const url = addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object, recordId);
  const result = await api.get(url, headersOf(api));
  if (result.kind === "not_found") return confirmMissing(api, object, recordId, result);
  // Without `modifiedAt`: events of EspoCRM carry our clock's time, which its own cannot be compared with.
  return toFetchedRecord(result, { recordId, id: "id" });
}

/** EspoCRM's 404 has no body, so a gateway's looks like it: an empty list is EspoCRM's own answer. */
async function confirmMissing(
  api: RecordApi,
  object: string,
  recordId: string,
  answer: NotFound,
): Promise<FetchedRecord> {
  const where = [{ type: "equals", attribute: "id", value: recordId }];
  const page = await listPage(api, object, { where, isCounted: true }, 1);
  switch (page.kind) {
    case "page":
      if (page.records.length === 0 && page.total === 0) return { kind: "missing" };
      return notAboutRecord(answer);
    case "not_found":
    case "not_a_list":
      return notAboutRecord(answer);
    case "throttled":
    case "client_error":
    case "unavailable":
      return page;
  }
}

/** @param maxSize how many records the page has at most; by default what EspoCRM allows. */
async function listPage(
  api: RecordApi,
  object: string,
  { isCounted, orderBy = "id", select, where = [] }: Selection,
  maxSize = RECORDS_A_PAGE,
): Promise<EspocrmPage | NotListed> {
  const query = new URLSearchParams({ maxSize: String(maxSize), orderBy, order: "asc" });
  if (select !== undefined) query.set("select", select);
  for (const [name, value] of parametersOf("where", where)) query.append(name, value);
  const url = `${addressOf(api.setting("ESPOCRM_URL"), "/api/v1", object)}?${query.toString()}`;
  const result = await api.get(url, {
    ...headersOf(api),
    ...(isCounted !== true && { "x-no-total": "true" }),
  });
  const page = toPage(result, "id", ({ list, total }) => {
    if (!Array.isArray(list) || typeof total !== "number") return undefined;
    // Without a count -1 means that there are more, -2 that there are not.
    const hasMore = total >= 0 ? total > list.length : total === -1;
    const last: unknown = (list as unknown[]).at(-1);
    const next = hasMore ? textOf(isObject(last) ? last["id"] : undefined) : undefined;
    return { list, next, ...(isCounted === true && { total }) };
  });
  return page.kind === "page" ? { ...page, listed: page.records } : page;
}

/** As PHP reads nested lists: `where[0][value][1][type]`, `where[0][value][]`. */
function parametersOf(name: string, value: unknown): (readonly [string, string])[] {
  if (typeof value === "string") return [[name, value]];
  return Object.entries(value ?? {}).flatMap(([key, inner]) =>
    parametersOf(`${name}[${typeof inner === "string" && Array.isArray(value) ? "" : key}]`, inner),
  );
}

/** A page of whole records, for mappings that read what lists leave out. */
async function readEach(
  api: RecordApi,
  object: string,
  selection: Selection,
): Promise<EspocrmPage | NotListed> {
  const page = await listPage(api, object, selection, READ_A_PAGE);
  if (page.kind !== "page") return page;
  const records: ListedRecord[] = [];
  for (const { id } of page.records) {
    const whole = await readRecord(api, object, id);
    // It was deleted meanwhile.
    if (whole.kind === "missing") continue;
    if (whole.kind !== "found") return whole;
    if (textOf(whole.record["id"]) !== id) return NO_LIST;
    records.push({ id, record: whole.record });
  }
  return { ...page, records };
}

/**
 * What has changed is found by this time, and by `createdAt` for records that were never modified. EspoCRM does not tell what
 * was deleted: that is what a list of all ids lacks.
 */
const CHANGED = "modifiedAt";
const CREATED = "createdAt";

/** @param next the field that is asked by; and the last record of the page before, by its time and id. */
async function changedSince(
  list: List,
  since: string,
  next: string = CHANGED,
): Promise<TimedPage | NotListed> {
  const [field = "", time, id = ""] = next.split("|");
  const after: Where =
    time === undefined
      ? { type: "greaterThanOrEquals", attribute: field, value: since }
      : {
          type: "or",
          value: [
            { type: "greaterThan", attribute: field, value: time },
            {
              type: "and",
              value: [{ type: "equals", attribute: field, value: time }, ...idsAfter(id)],
            },
          ],
        };
  const unchanged: readonly Where[] =
    field === CREATED ? [{ type: "isNull", attribute: CHANGED }] : [];
  // EspoCRM itself sorts by id what has the same time.
  const page = await list({ where: [after, ...unchanged], orderBy: field });
  if (page.kind !== "page") return page;
  const times = new Map(page.listed.map((one) => [one.id, textOf(one.record[field])]));
  if ([...times.values()].some((text) => !TIME.test(text))) return NO_LIST;
  // Events of EspoCRM carry our clock's time, which its own cannot be compared with.
  const changeOf = (one: ListedRecord) => {
    return { ...one, at: undefined, askedBy: timeOf(times.get(one.id)) };
  };
  const end = field === CHANGED ? CREATED : undefined;
  return toTimedPage(page, changeOf, (last) =>
    last ? `${field}|${times.get(last)}|${last}` : end,
  );
}

/** In UTC. */
const TIME = /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$/;

const toSeconds = (time: string): string => time.slice(0, 19).replace("T", " ");

/** A list by a link's id (`accountId`), or by ids. */
export const espocrmRelations: RelationReader = {
  idField: () => "id",
  most: 50,
  find: (api, { field, object, values }, after) => {
    const where = [{ type: "in", attribute: field, value: values }, ...idsAfter(after)];
    return listPage(api, object, { where, isCounted: true });
  },
};
