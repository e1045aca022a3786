/** How each CRM's API lists records: its pages, cursors and counts, as it documents them. */

type Json = Readonly<Record<string, unknown>>;

/** What the CRM holds, and how it answers. */
export interface CrmList {
  /** Records by the name of the object in the API's addresses, in the order of their ids. */
  readonly records: Map<string, Json[]>;
  /** HubSpot's, by `contacts/7/companies`. */
  readonly associations?: Map<string, Json[]>;
  /** Records in a page, if fewer than were asked for. */
  pageSize: number;
  /** What the CRM says instead of the truth. */
  readonly lies: { total?: number; next?: string };
  /** Records as they were after each write over the API, the oldest first. */
  readonly written?: Json[];
}

export interface ListRequest {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The address of the CRM. */
  readonly url: string;
  /** What was posted, as text. */
  readonly body: string;
}

export interface ListAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Json;
}

/** Undefined: not a request for a list. */
export type AnswerList = (request: ListRequest, list: CrmList) => ListAnswer | undefined;

const ok = (body: Json): ListAnswer => ({ status: 200, body });
const pageOf = (all: readonly Json[], from: number, size: number) => ({
  records: all.slice(from, from + size),
  next: from + size < all.length ? from + size : undefined,
});
const pick = (record: Json, names: readonly string[]): Json =>
  Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)));

interface HubSpotSearch {
  readonly filterGroups: readonly {
    readonly filters: readonly { propertyName: string; operator: string; value: string }[];
  }[];
  readonly sorts: readonly { propertyName: string; direction: string }[];
  readonly properties: readonly string[];
  readonly limit: number;
}

/** One rule of order, at most 200 records a page, times and ids as numbers; archived records are not found. */
function searchHubSpot(all: readonly Json[], body: string, pageSize: number): ListAnswer {
  const { filterGroups, limit, properties, sorts } = JSON.parse(body) as HubSpotSearch;
  const [sort] = sorts;
  if (sorts.length > 1 || sort?.direction !== "ASCENDING" || limit > 200) {
    return { status: 400, body: { status: "error", category: "VALIDATION_ERROR" } };
  }
  const numberIn = (record: Json, name: string) =>
    name === "hs_object_id"
      ? Number(record["id"])
      : Date.parse(String((record["properties"] as Json)[name]));
  const isFound = (record: Json) =>
    record["archived"] !== true &&
    filterGroups.some(({ filters }) =>
      filters.every(({ operator, propertyName, value }) => {
        const number = numberIn(record, propertyName);
        if (operator === "GT") return number > Number(value);
        return operator === "GTE" ? number >= Number(value) : number === Number(value);
      }),
    );
  const found = all
    .filter(isFound)
    .toSorted((a, b) => numberIn(a, sort.propertyName) - numberIn(b, sort.propertyName));
  const page = pageOf(found, 0, Math.min(pageSize, limit));
  const names = [...properties, "createdate", "hs_lastmodifieddate", "hs_object_id"];
  return ok({
    total: found.length,
    results: page.records.map((record) => {
      return { ...record, properties: pick(record["properties"] as Json, names) };
    }),
    ...(page.next !== undefined && { paging: { next: { after: String(page.next) } } }),
  });
}

const BY_TIME =
  /^SELECT ([\w,]+) FROM (\w+) WHERE SystemModstamp >= ([\d:TZ.-]+) ORDER BY SystemModstamp$/;

/** A query that includes deleted records. The places of its pages are about the records that it has found. */
function changesOfSalesforce(
  path: string,
  query: URLSearchParams,
  { records, pageSize, lies }: CrmList,
): ListAnswer | undefined {
  const [, fields = "", object = "", rest] =
    (path.endsWith("/queryAll")
      ? BY_TIME.exec(query.get("q") ?? "")
      : /\/query\/01q([\w,]+)-(\w+)-([\w.]+)$/.exec(path)) ?? [];
  const all = records.get(object);
  if (rest === undefined || all === undefined) return undefined;
  const timeIn = (record: Json) => Date.parse(String(record["SystemModstamp"]));
  const found = path.endsWith("/queryAll")
    ? all
        .filter((record) => timeIn(record) >= Date.parse(rest))
        .toSorted((a, b) => timeIn(a) - timeIn(b))
    : rest.split(".").flatMap((id) => all.filter(({ Id }) => Id === id));
  const left = found.slice(pageSize).map(({ Id }) => Id);
  const next = lies.next ?? `/services/data/v62.0/query/01q${fields}-${object}-${left.join(".")}`;
  return ok({
    totalSize: found.length,
    done: left.length === 0,
    ...(left.length > 0 && { nextRecordsUrl: next }),
    records: found
      .slice(0, pageSize)
      .map((record) => pick(record, ["attributes", ...fields.split(",")])),
  });
}

/** Of the whole table, or of what has changed since the version of the link: first the records, then the deletions. */
function changesOfDynamics(
  url: URL,
  all: readonly Json[],
  pageSize: number,
  lies: CrmList["lies"],
): ListAnswer {
  const { pathname, searchParams: query } = url;
  if (["$filter", "$orderby", "$top"].some((name) => query.has(name))) {
    return { status: 400, body: { error: { code: "0x80060888" } } };
  }
  const versionIn = (record: Json) => Number(record["versionnumber"] ?? 0);
  const newest = Math.max(0, ...all.map(versionIn));
  const [since, until] = (query.get("$deltatoken") ?? `-1!${newest}`).split("!");
  const isInitial = since === "-1";
  const to = until === "" ? newest : Number(until);
  const placeOf = (record: Json) => Number(record["deleted"] === true) * 1e9 + versionIn(record);
  const place = Number(query.get("$skiptoken") ?? -1);
  const left = all
    .filter((record) => versionIn(record) > Number(since) && versionIn(record) <= to)
    .filter((record) => placeOf(record) > place && !(isInitial && record["deleted"] === true))
    .toSorted((a, b) => placeOf(a) - placeOf(b));
  const { next, records } = pageOf(left, 0, pageSize);
  const select = query.get("$select") ?? "";
  const link = new URL(pathname, lies.next ?? url);
  link.searchParams.set("$select", select);
  link.searchParams.set("$deltatoken", next === undefined ? `${to}!` : `${since}!${to}`);
  const last = records.at(-1);
  if (next !== undefined && last !== undefined) {
    link.searchParams.set("$skiptoken", String(placeOf(last)));
  }
  const key = select.split(",")[0] ?? "";
  const isSelected = (name: string) => select.split(",").includes(name.replace(/@.*/, ""));
  const value = records.map((record) =>
    record["deleted"] === true
      ? {
          "@odata.context": `${url.origin}/api/data/v9.2/$metadata#contacts/$deletedEntity`,
          id: record[key],
          reason: "deleted",
        }
      : pick(record, Object.keys(record).filter(isSelected)),
  );
  return ok({ value, [next === undefined ? "@odata.deltaLink" : "@odata.nextLink"]: link.href });
}

/** Sorts by a field that holds a time, and by id. */
const timeAndId =
  (field: string) =>
  (record: Json): string =>
    `${String(record[field])} ${String(record["id"])}`;
const byKey = (keyOf: (record: Json) => string) => (one: Json, other: Json) =>
  keyOf(one) < keyOf(other) ? -1 : 1;

/** Pages by their number, with the counts in `meta`. */
function numberedPage(
  all: readonly Json[],
  page: number,
  size: number,
  total: { readonly name: string; readonly value: number | undefined },
): ListAnswer {
  const { records } = pageOf(all, (page - 1) * size, size);
  const totals = { [total.name]: total.value ?? all.length };
  const meta = { current_page: page, total_pages: Math.ceil(all.length / size), ...totals };
  return ok({ contacts: records, meta });
}

const isSinceTime = (value: unknown, since: string | null): boolean =>
  since === null || !(Date.parse(String(value)) < Date.parse(since));
const byId = (one: Json, other: Json): number => Number(one["id"]) - Number(other["id"]);

/** A filter that names deletedAt brings what is in the bin; a cursor is the order and id of a record. */
function changedInTwenty(
  query: URLSearchParams,
  filter: string,
  all: readonly Json[],
  size: number,
  dataOf: (records: readonly Json[]) => Json,
): ListAnswer {
  const [, since = "", deletedSince = ""] =
    /^or\(updatedAt\[gte\]:([^,]+),deletedAt\[gte\]:([^,)]+)\)$/.exec(filter) ?? [];
  const keyOf = timeAndId("updatedAt");
  const cursor = query.get("starting_after") ?? "";
  if (since === "" || query.get("order_by") !== "updatedAt") {
    return { status: 400, body: { statusCode: 400, error: "BadRequestException" } };
  }
  const isSince = (value: unknown, from: string) => typeof value === "string" && value >= from;
  const changed = all.filter(
    (one) => isSince(one["updatedAt"], since) || isSince(one["deletedAt"], deletedSince),
  );
  const rest = changed.filter((one) => keyOf(one) > cursor).toSorted(byKey(keyOf));
  const page = pageOf(rest, 0, size);
  const endCursor = page.records.length === 0 ? null : keyOf(page.records.at(-1) ?? {});
  return ok({
    data: dataOf(page.records),
    pageInfo: { hasNextPage: page.next !== undefined, endCursor },
    totalCount: changed.length,
  });
}

/** Whether EspoCRM's search parameters below `name` select a record. */
function isWhere(query: URLSearchParams, name: string, record: Json, how: string): boolean {
  const results: boolean[] = [];
  for (let n = 0; query.has(`${name}[${n}][type]`); n += 1) {
    const type = query.get(`${name}[${n}][type]`) ?? "";
    const wanted = query.get(`${name}[${n}][value]`) ?? "";
    const value = record[query.get(`${name}[${n}][attribute]`) ?? ""] ?? null;
    const text = typeof value === "string" ? value : "";
    const found: Readonly<Record<string, () => boolean>> = {
      equals: () => text === wanted,
      greaterThan: () => value !== null && text > wanted,
      greaterThanOrEquals: () => value !== null && text >= wanted,
      isNull: () => value === null,
      and: () => isWhere(query, `${name}[${n}][value]`, record, "and"),
      or: () => isWhere(query, `${name}[${n}][value]`, record, "or"),
    };
    results.push(found[type]?.() ?? false);
  }
  return how === "and" ? results.every(Boolean) : results.some(Boolean);
}

/** Pipedrive's `/v1/recents`: also what was deleted, in the form of API v1; the time itself is left out. */
function recentsOf(query: URLSearchParams, records: CrmList["records"], size: number): ListAnswer {
  const since = query.get("since_timestamp") ?? "";
  const item = query.get("items") ?? "";
  if (!/^[\d-]{10} [\d:]{8}$/.test(since)) return { status: 400, body: { success: false } };
  const keyOf = timeAndId("update_time");
  const v1 = (time: unknown) => String(time).replace("T", " ").slice(0, 19);
  const all = (records.get(`${item}s`) ?? [])
    .toSorted(byKey(keyOf))
    .filter(({ update_time: time }) => v1(time) > since);
  const start = Number(query.get("start"));
  const page = pageOf(all, start, size);
  const data = page.records.map(({ id, is_deleted: isDeleted, name, ...record }) => {
    const [changed, deleted] = [record["update_time"], record["delete_time"]];
    const times = {
      update_time: v1(changed),
      delete_time: deleted === undefined ? null : v1(deleted),
    };
    return { item, id, data: { id, name, active_flag: isDeleted !== true, ...times } };
  });
  return ok({
    success: true,
    data: data.length === 0 ? null : data,
    additional_data: {
      since_timestamp: since,
      last_timestamp_on_page: data.at(-1)?.data.update_time ?? since,
      pagination: {
        start,
        limit: size,
        more_items_in_collection: page.next !== undefined,
        ...(page.next !== undefined && { next_start: page.next }),
      },
    },
  });
}

export const LISTS: Readonly<Record<string, AnswerList>> = {
  hubspot({ path, query, body }, { records, pageSize, lies }) {
    const searched = records.get(/^\/crm\/objects\/2026-09\/(\w+)\/search$/.exec(path)?.[1] ?? "");
    if (searched !== undefined) return searchHubSpot(searched, body, pageSize);
    const described = records.get(/^\/crm\/properties\/2026-09\/(\w+)$/.exec(path)?.[1] ?? "");
    if (described !== undefined) {
      const known = described.flatMap(({ properties }) => Object.keys(properties as Json));
      return ok({ results: [...new Set(known)].map((name) => ({ name, type: "string" })) });
    }
    const kept = records.get(/^\/crm\/objects\/2026-09\/(\w+)$/.exec(path)?.[1] ?? "");
    const isArchived = query.get("archived") === "true";
    const all = kept?.filter(({ archived }) => (archived === true) === isArchived);
    if (all === undefined) return undefined;
    const size = Math.min(pageSize, Number(query.get("limit")), 100);
    const page = pageOf(all, Number(query.get("after") ?? 0), size);
    const names = (query.get("properties") ?? "").split(",");
    const results = page.records.map((record) => {
      return { ...record, properties: pick(record["properties"] as Json, names) };
    });
    const after = page.next === undefined ? undefined : (lies.next ?? String(page.next));
    const paging = { next: { after, link: `https://elsewhere.example/${path}?after=${after}` } };
    return ok({ results, ...(after !== undefined && { paging }) });
  },

  salesforce({ path, query }, { records, pageSize, lies }) {
    const described = /^\/services\/data\/v62\.0\/sobjects\/(\w+)\/describe$/.exec(path)?.[1];
    const namesOf = (object: string) => [
      ...new Set(records.get(object)?.flatMap((record) => Object.keys(record))),
      "SystemModstamp",
      "IsDeleted",
    ];
    if (described !== undefined && records.has(described)) {
      return ok({ name: described, fields: namesOf(described).map((name) => ({ name })) });
    }
    const changed = changesOfSalesforce(path, query, { records, pageSize, lies });
    if (changed !== undefined) return changed;
    const soql = /^SELECT ([\w,]+) FROM (\w+)$/.exec(query.get("q") ?? "");
    const cursor = /\/query\/01g([\w,]+)-(\w+)-(\d+)$/.exec(path);
    const [, fields = "", object = "", from = 0] = soql ?? cursor ?? [];
    const all = records.get(object)?.filter(({ IsDeleted }) => IsDeleted !== true);
    if (!path.startsWith("/services/data/v62.0/query") || all === undefined) return undefined;
    const names = fields.split(",");
    const known = new Set(["Id", ...namesOf(object)]);
    if (!names.every((name) => known.has(name))) {
      return { status: 400, body: [{ errorCode: "INVALID_FIELD" }] as unknown as Json };
    }
    const page = pageOf(all, Number(from), pageSize);
    const nextRecordsUrl =
      lies.next ?? `/services/data/v62.0/query/01g${fields}-${object}-${page.next}`;
    return ok({
      totalSize: lies.total ?? all.length,
      done: page.next === undefined,
      ...(page.next !== undefined && { nextRecordsUrl }),
      records: page.records.map((record) => pick(record, ["attributes", ...names])),
    });
  },

  dynamics({ path, query, headers, url }, { records, pageSize, lies }) {
    const set = /^\/api\/data\/v9\.2\/(\w+)$/.exec(path)?.[1] ?? "";
    const kept = records.get(set);
    if (kept === undefined) return undefined;
    const isTracking = String(headers["prefer"]).includes("odata.track-changes");
    if (isTracking || query.has("$deltatoken")) {
      return changesOfDynamics(new URL(`${path}?${query.toString()}`, url), kept, pageSize, lies);
    }
    const all = kept.filter(({ deleted }) => deleted !== true);
    if (query.has("$top")) return ok({ value: all.slice(0, Number(query.get("$top"))) });
    const select = (query.get("$select") ?? "").split(",");
    const known = new Set([`${set.slice(0, -1)}id`, ...all.flatMap((one) => Object.keys(one))]);
    if (!select.every((name) => known.has(name))) {
      return { status: 400, body: { error: { code: "0x80060888" } } };
    }
    const asked = Number(/odata\.maxpagesize=(\d+)/.exec(String(headers["prefer"]))?.[1]);
    const page = pageOf(all, Number(query.get("$skiptoken") ?? 0), Math.min(pageSize, asked));
    const next = new URL(`${path}?${query.toString()}`, lies.next ?? url);
    next.searchParams.set("$skiptoken", String(page.next));
    const isSelected = (name: string) => select.includes(name.replace(/@.*/, ""));
    return ok({
      "@odata.count": Math.min(lies.total ?? all.length, 5000),
      value: page.records.map((record) => pick(record, Object.keys(record).filter(isSelected))),
      ...(page.next !== undefined && { "@odata.nextLink": next.href }),
    });
  },

  espocrm({ body, method, path, query, headers }, { records, pageSize, lies, written }) {
    const [, entity = "", id] = /^\/api\/v1\/(\w+)(?:\/(\w+))?$/.exec(path) ?? [];
    const all = records.get(entity);
    if (all === undefined) return undefined;
    const one = all.find((record) => record["id"] === id);
    if (method === "PUT" && one !== undefined) {
      const modifiedAt = new Date().toISOString().slice(0, 19).replace("T", " ");
      const changed = { ...one, ...(JSON.parse(body) as Json), modifiedAt };
      records.set(
        entity,
        all.map((record) => (record === one ? changed : record)),
      );
      written?.push(changed);
      return ok(changed);
    }
    if (id !== undefined) return one && ok(one);
    const maxSize = Number(query.get("maxSize"));
    if (maxSize > 200) return { status: 403, body: {} };
    const order = query.get("orderBy") ?? "";
    const rest = all
      .filter((record) => isWhere(query, "where", record, "and"))
      .toSorted(byKey(timeAndId(order)));
    const select = query.get("select")?.split(",");
    const list = rest.slice(0, Math.min(pageSize, maxSize)).map((record) => {
      const shown = Object.keys(record).filter((name) => !name.endsWith("Data"));
      return pick(record, select ?? shown);
    });
    const counted = lies.total ?? rest.length;
    const hasMore = rest.length > list.length;
    const isCounted = headers["x-no-total"] === undefined;
    return ok({ list, total: isCounted ? counted : hasMore ? -1 : -2 });
  },

  pipedrive({ path, query }, { records, pageSize, lies }) {
    const size = Math.min(pageSize, Number(query.get("limit")), 500);
    if (path === "/v1/recents") return recentsOf(query, records, size);
    const listed = records.get(/^\/api\/v2\/(\w+)$/.exec(path)?.[1] ?? "");
    if (listed === undefined) return undefined;
    const all = listed.filter(({ is_deleted: isDeleted }) => isDeleted !== true);
    const since = query.get("updated_since");
    if (since !== null) {
      const cursor = query.get("cursor");
      const keyOf = timeAndId("update_time");
      const bad =
        !/^[\d-]+T[\d:]+Z$/.test(since) || (cursor !== null && !/^\d{4}-.* /.test(cursor));
      if (bad || query.get("sort_by") !== "update_time") {
        return { status: 400, body: { success: false, error: "Invalid value" } };
      }
      const rest = all.filter((one) => keyOf(one) >= since && keyOf(one) > (cursor ?? ""));
      const page = pageOf(rest.toSorted(byKey(keyOf)), 0, size);
      const last = page.next === undefined ? null : keyOf(page.records.at(-1) ?? {});
      return ok({ success: true, data: page.records, additional_data: { next_cursor: last } });
    }
    const page = pageOf(all, Number(query.get("cursor")?.slice(1) ?? 0), size);
    const next = page.next === undefined ? null : (lies.next ?? `c${page.next}`);
    return ok({ success: true, data: page.records, additional_data: { next_cursor: next } });
  },

  /** The time of a deletion is not shown. */
  wealthbox({ path, query }, { records, pageSize, lies }) {
    const all = records.get("contacts");
    const [, id] = /^\/v1\/contacts(?:\/(\d+))?$/.exec(path) ?? [];
    if (all === undefined || !path.startsWith("/v1/contacts")) return undefined;
    if (id !== undefined) {
      const one = all.find((record) => String(record["id"]) === id);
      return one === undefined ? { status: 404, body: { error: "Not found" } } : ok(one);
    }
    const isDeleted = query.get("deleted") === "true";
    const since = query.get("updated_since");
    const found = all
      .filter(({ deleted_at: deletedAt }) => (deletedAt !== undefined) === isDeleted)
      .filter((one) => isSinceTime(one["updated_at"], since))
      .filter((one) => isSinceTime(one["deleted_at"], query.get("deleted_since")))
      .map((record) =>
        pick(
          record,
          Object.keys(record).filter((name) => name !== "deleted_at"),
        ),
      );
    // The order of creation is the one that does not move.
    const isStable = query.get("order") === "created";
    const sorted = isStable ? found.toSorted(byId) : found.toSorted(byKey(timeAndId("updated_at")));
    const size = Math.min(pageSize, Number(query.get("per_page")), 100);
    const total = { name: "total_count", value: lies.total };
    return numberedPage(sorted, Number(query.get("page")), size, total);
  },

  redtail({ path, query, headers }, { records, pageSize, lies }) {
    const all = records.get("contacts");
    const [, what, id] = /^\/api\/public\/v1\/contacts(\/search|\/(\d+))?$/.exec(path) ?? [];
    if (all === undefined || !path.startsWith("/api/public/v1/contacts")) return undefined;
    if (id !== undefined) {
      const contact = all.find((one) => String(one["id"]) === id);
      const body = { message: "Contact not found" };
      return contact === undefined ? { status: 404, body } : ok({ contact });
    }
    if (headers["include"] !== "addresses,phones,emails") return { status: 422, body: {} };
    const since = what === "/search" ? query.get("updated_since") : null;
    const found = all.filter((one) => isSinceTime(one["updated_at"], since)).toSorted(byId);
    const size = Math.min(pageSize, Number(headers["pagesize"]));
    const total = { name: "total_records", value: lies.total };
    return numberedPage(found, Number(query.get("page")), size, total);
  },

  /** Answers with at most 200 fields; `fields` names others, a relation by its own name. */
  twenty({ path, query }, { records, pageSize, lies }) {
    const plural = /^\/rest\/(\w+)$/.exec(path)?.[1] ?? "";
    const all = records.get(plural);
    if (all === undefined) return undefined;
    const has = [...new Set(all.flatMap((record) => Object.keys(record)))];
    const asked = query.get("fields")?.split(",");
    const columns = asked?.map((name) => (has.includes(`${name}Id`) ? `${name}Id` : name));
    const unknown = asked?.filter(
      (name, n) =>
        name !== "id" && name === columns?.[n] && (/[a-z]Id$/.test(name) || !has.includes(name)),
    );
    if (unknown !== undefined && unknown.length > 0) {
      return {
        status: 400,
        body: {
          statusCode: 400,
          error: "BadRequestException",
          messages: [`unknown fields: ${unknown.join(", ")}`],
        },
      };
    }
    const shown = columns === undefined ? has.slice(0, 200) : ["id", ...columns];
    const size = Math.min(pageSize, Number(query.get("limit")), 200);
    const filter = query.get("filter");
    if (filter !== null) {
      return changedInTwenty(query, filter, all, size, (records) => ({
        [plural]: records.map((record) => pick(record, shown)),
      }));
    }
    const living = all.filter(({ deletedAt }) => deletedAt === null || deletedAt === undefined);
    const page = pageOf(living, Number(query.get("starting_after") ?? 0), size);
    const { next } = page;
    const isCapped = shown.length < has.length && columns === undefined;
    return {
      status: 200,
      ...(isCapped && { headers: { "X-Twenty-Fields-Capped": "true" } }),
      body: {
        data: { [plural]: page.records.map((record) => pick(record, shown)) },
        pageInfo: { hasNextPage: next !== undefined, endCursor: lies.next ?? String(next) },
        totalCount: lies.total ?? living.length,
      },
    };
  },
};
