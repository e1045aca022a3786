/** How each CRM's API finds records of which a field is known, and single records among many. */
import type { CrmList, ListAnswer, ListRequest } from "./crm-lists.ts";

type Json = Readonly<Record<string, unknown>>;

/** Undefined: not such a request. */
type AnswerRelated = (
  request: ListRequest & { readonly body: string },
  list: CrmList,
) => ListAnswer | undefined;

const ok = (body: Json, status = 200): ListAnswer => ({ status, body });

export const RELATED: Readonly<Record<string, AnswerRelated>> = {
  salesforce({ path, query }, { records }) {
    const [, object = "", id = ""] = /\/v62\.0\/sobjects\/(\w+)\/(\w{18})$/.exec(path) ?? [];
    const one = records.get(object)?.find(({ Id }) => Id === id);
    if (one !== undefined) return ok(one);
    const soql = /^SELECT ([\w,]+) FROM (\w+) WHERE (\w+) IN \(([\w',]+)\)$/.exec(
      query.get("q") ?? "",
    );
    const [, fields = "", from = "", field = "", values = ""] = soql ?? [];
    const all = records.get(from);
    if (all === undefined) return undefined;
    const wanted = new Set(values.replaceAll("'", "").split(","));
    const found = all.filter((record) => wanted.has(String(record[field])));
    const names = fields.split(",");
    const list = found.map((record) =>
      Object.fromEntries(names.map((name) => [name, record[name] ?? null])),
    );
    return ok({ totalSize: list.length, done: true, records: list });
  },

  hubspot({ path, body }, { associations = new Map<string, Json[]>(), records }) {
    const inputs = () => (JSON.parse(body) as { inputs: { id: string; after?: string }[] }).inputs;
    const [, kind, first = "", second = ""] =
      /^\/crm\/(objects|associations)\/2026-09\/([\w-]+)\/([\w-]+)(?:\/batch\/read|\/read)?$/.exec(
        path,
      ) ?? [];
    if (kind === "associations") {
      const found = inputs().flatMap(({ id, after }) => {
        const to = associations.get(`${first}/${id}/${second}`) ?? [];
        const rest = to.slice(Number(after ?? 0));
        // Two associations in a page.
        const next = rest.length > 2 && {
          paging: { next: { after: String(Number(after ?? 0) + 2) } },
        };
        return rest.length === 0 ? [] : [{ from: { id }, to: rest.slice(0, 2), ...next }];
      });
      const none = inputs().length - found.length;
      const error = {
        status: "error",
        category: "OBJECT_NOT_FOUND",
        subCategory: "crm.associations.NO_ASSOCIATIONS_FOUND",
      };
      const errors = Array.from({ length: none }, () => error);
      return ok(
        { status: "COMPLETE", results: found, ...(none > 0 && { numErrors: none, errors }) },
        none > 0 ? 207 : 200,
      );
    }
    const all = kind === "objects" ? records.get(first) : undefined;
    if (all === undefined) return undefined;
    if (second !== "batch") {
      const one = all.find(({ id }) => id === second);
      return one && ok(one);
    }
    const asked = new Set(inputs().map(({ id }) => id));
    const results = all.filter(({ id }) => asked.has(String(id)));
    const none = asked.size - results.length;
    const errors = none > 0 && {
      numErrors: none,
      errors: [{ status: "error", category: "OBJECT_NOT_FOUND" }],
    };
    return ok({ status: "COMPLETE", results, ...errors }, none > 0 ? 207 : 200);
  },

  dynamics({ path, query }, { records }) {
    const all = records.get(/^\/api\/data\/v9\.2\/(\w+)$/.exec(path)?.[1] ?? "");
    const conditions = query.get("$filter")?.split(" or ");
    if (all === undefined || conditions === undefined) return undefined;
    const pairs = conditions.map((text) => text.split(" eq "));
    const value = all.filter((row) => pairs.some(([name = "", id]) => row[name] === id));
    return ok({ value });
  },

  pipedrive({ path, query }, { records }) {
    const all = records.get(/^\/api\/v2\/(\w+)$/.exec(path)?.[1] ?? "");
    const ids = query.get("ids")?.split(",");
    const [by, value] = [...query].find(([name]) => name.endsWith("_id")) ?? [];
    if (all === undefined || (ids === undefined && by === undefined)) return undefined;
    const data = all.filter((one) =>
      by === undefined ? ids?.includes(String(one["id"])) : String(one[by]) === value,
    );
    return ok({ success: true, data, additional_data: { next_cursor: null } });
  },

  espocrm({ path, query }, { records, pageSize }) {
    const all = records.get(/^\/api\/v1\/(\w+)$/.exec(path)?.[1] ?? "");
    if (all === undefined || query.get("where[0][type]") !== "in") return undefined;
    const wanted = new Set(query.getAll("where[0][value][]"));
    const after = query.get("where[1][type]") === "greaterThan" ? query.get("where[1][value]") : "";
    const found = all.filter(
      (one) =>
        wanted.has(String(one[query.get("where[0][attribute]") ?? ""])) &&
        String(one["id"]) > (after ?? ""),
    );
    const size = Math.min(pageSize, Number(query.get("maxSize")));
    const list = found.toSorted((a, b) => (String(a["id"]) < String(b["id"]) ? -1 : 1));
    return ok({ total: found.length, list: list.slice(0, size) });
  },

  /** A value that is no UUID is an error; what is in the bin is left out. */
  twenty({ path, query }, { records, pageSize }) {
    const [, plural = "", id] = /^\/rest\/(\w+)(?:\/([\da-f-]{36}))?$/.exec(path) ?? [];
    const all = records.get(plural);
    const one = all?.find((record) => record["id"] === id);
    if (one !== undefined) return ok({ data: { [plural === "people" ? "person" : plural]: one } });
    const [, field = "", values] = /^(\w+)\[in\]:\[(.+)\]$/.exec(query.get("filter") ?? "") ?? [];
    if (all === undefined || values === undefined) return undefined;
    const wanted = new Set(values.split(",").map((value) => value.replaceAll('"', "")));
    if ([...wanted].some((id) => !/^[\da-f-]{36}$/.test(id)) || query.get("depth") !== "0") {
      return ok({ statusCode: 400, error: "BadRequestException", messages: ["…"] }, 400);
    }
    const found = all.filter(
      (one) => wanted.has(String(one[field])) && typeof one["deletedAt"] !== "string",
    );
    const from = Number(query.get("starting_after") ?? 0);
    const end = from + Math.min(pageSize, Number(query.get("limit")));
    return ok({
      data: { [plural]: found.slice(from, end) },
      pageInfo: {
        hasNextPage: end < found.length,
        startCursor: String(from),
        endCursor: String(end),
      },
      totalCount: found.length,
    });
  },
};
