/** How each CRM's API describes itself, as it documents that: its fields, rights and webhooks. */

type Json = Readonly<Record<string, unknown>>;

/** What the CRM has. */
export interface CrmDescription {
  /** Object → name → type of its fields. */
  readonly fields: Map<string, Map<string, string>>;
  /** What its webhooks send, as `<object>.<action>`; undefined: the credential may not see them. */
  webhooks: string[] | undefined;
  /** Where they send it. */
  url: string;
  /** Objects whose records the credential may not read. */
  readonly forbidden: Set<string>;
}

export interface DescriptionRequest {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  readonly query: URLSearchParams;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

const ok = (body: unknown): Answer => ({ status: 200, body });
const forbidden = (body: unknown): Answer => ({ status: 403, body });

/** Undefined: the request is not about the CRM itself. */
type Describe = (
  request: DescriptionRequest,
  crm: CrmDescription,
  isListed: (object: string) => boolean,
) => Answer | undefined;

const PLURALS: Readonly<Record<string, string>> = {
  contacts: "contact",
  companies: "company",
  people: "person",
  persons: "person",
  organizations: "organization",
  accounts: "account",
};
const singular = (name = "") => PLURALS[name] ?? name;
const named = (fields: Map<string, string>, as: (name: string, type: string) => Json) =>
  [...fields].map(([name, type]) => as(name, type));

export const DESCRIPTIONS: Readonly<Record<string, Describe>> = {
  hubspot({ method, path, query }, { fields, forbidden: hidden, webhooks }) {
    const missing = { status: "error", category: "MISSING_SCOPES", message: "…" };
    const scopeOf = (object: string) =>
      `crm.objects.${object === "contact" ? "contacts" : "companies"}.read`;
    if (method === "POST" && path === "/oauth/v2/private-apps/get/access-token-info") {
      const scopes = [...fields.keys()].filter((object) => !hidden.has(object)).map(scopeOf);
      return ok({ userId: 1, hubId: 2, appId: 3, scopes });
    }
    const properties = /^\/crm\/properties\/2026-09\/(\w+)$/.exec(path)?.[1];
    if (properties !== undefined && query.has("dataSensitivity")) {
      const own = fields.get(singular(properties));
      if (own === undefined) return { status: 404, body: { category: "OBJECT_NOT_FOUND" } };
      const level = query.get("dataSensitivity") ?? "non_sensitive";
      const shown = new Map(
        [...own].filter(([name]) => (level === "sensitive") === name.startsWith("secret_")),
      );
      return ok({ results: named(shown, (name, type) => ({ name, type, fieldType: "text" })) });
    }
    const listed = /^\/crm\/objects\/2026-09\/(\w+)$/.exec(path)?.[1];
    if (listed !== undefined && query.get("limit") === "1") {
      return hidden.has(singular(listed)) ? forbidden(missing) : ok({ results: [] });
    }
    if (path !== "/app-webhooks/2026-09/3/subscriptions") return undefined;
    if (webhooks === undefined) return forbidden(missing);
    const results = webhooks.map((what) => {
      const [eventType, propertyName] = what.split(" ");
      return {
        id: "1",
        active: true,
        eventType,
        ...(propertyName !== undefined && { propertyName }),
      };
    });
    return ok({ results });
  },

  salesforce({ path, query }, { fields, webhooks }, isListed) {
    const object = /^\/services\/data\/v62\.0\/sobjects\/(\w+)\/describe$/.exec(path)?.[1];
    const own = fields.get(object ?? "");
    if (own !== undefined) {
      return ok({
        name: object,
        fields: named(own, (name, type) => ({ name, type, relationshipName: null })),
      });
    }
    if (object !== undefined && !isListed(object)) {
      return { status: 404, body: [{ errorCode: "NOT_FOUND", message: "…" }] };
    }
    if (path !== "/services/data/v62.0/tooling/query") return undefined;
    if (webhooks === undefined)
      return { status: 400, body: [{ errorCode: "INVALID_TYPE", message: "…" }] };
    if (query.get("q") !== "SELECT SelectedEntity FROM PlatformEventChannelMember")
      return undefined;
    const records = webhooks.map((what) => ({ SelectedEntity: what }));
    return ok({ size: records.length, done: true, records });
  },

  dynamics({ path, query }, { fields, forbidden: hidden, url, webhooks }) {
    const table = /^\/api\/data\/v9\.2\/EntityDefinitions\(LogicalName='(\w+)'\)\/Attributes$/.exec(
      path,
    )?.[1];
    if (table !== undefined) {
      const own = fields.get(table);
      if (own === undefined) return { status: 404, body: { error: { code: "0x80060888" } } };
      return ok({
        value: named(own, (LogicalName, AttributeType) => ({ LogicalName, AttributeType })),
      });
    }
    const set = /^\/api\/data\/v9\.2\/(\w+)$/.exec(path)?.[1];
    if (query.get("$top") === "1" && query.has("$select")) {
      return hidden.has(singular(set))
        ? forbidden({ error: { code: "0x80040220" } })
        : ok({ value: [] });
    }
    if (set !== "sdkmessageprocessingsteps") return undefined;
    if (webhooks === undefined) return forbidden({ error: { code: "0x80040220" } });
    const value = webhooks.map((what) => {
      const [primaryobjecttypecode, name] = what.split(".");
      return {
        sdkmessageid: { name },
        sdkmessagefilterid: { primaryobjecttypecode },
        eventhandler_serviceendpoint: { url },
      };
    });
    return ok({ value });
  },

  pipedrive({ path, query }, { fields, forbidden: hidden, url, webhooks }, isListed) {
    const refused = { success: false, error: "Scope and URL mismatch", errorCode: 403 };
    const object = /^\/api\/v2\/(\w+)Fields$/.exec(path)?.[1];
    if (object !== undefined && !isListed(`${object}Fields`)) {
      const data = named(fields.get(object) ?? new Map<string, string>(), (name, type) => ({
        field_code: name,
        field_type: type,
      }));
      return ok({ success: true, data, additional_data: { next_cursor: null } });
    }
    const listed = /^\/api\/v2\/(\w+)$/.exec(path)?.[1];
    if (listed !== undefined && query.get("limit") === "1") {
      if (hidden.has(singular(listed))) return forbidden(refused);
      const own = [...(fields.get(singular(listed)) ?? new Map<string, string>()).keys()];
      const record = Object.fromEntries(
        own.filter((name) => name.length < 40).map((name) => [name, null]),
      );
      return ok({
        success: true,
        data: [{ ...record, id: 1 }],
        additional_data: { next_cursor: null },
      });
    }
    if (path !== "/v1/webhooks") return undefined;
    if (webhooks === undefined) return forbidden(refused);
    const data = webhooks.map((what) => {
      const [event_object, event_action] = what.split(".");
      return { event_action, event_object, subscription_url: url, is_active: 1, version: "2.0" };
    });
    return ok({ success: true, data });
  },

  espocrm({ path, query }, { fields, forbidden: hidden, url, webhooks }) {
    if (path === "/api/v1/App/user") {
      const right = (object: string) => (hidden.has(object) ? false : { read: "all", edit: "no" });
      const table = Object.fromEntries([...fields.keys()].map((object) => [object, right(object)]));
      return ok({
        user: {},
        acl: { table, fieldTable: { Contact: { secretNote: { read: "no", edit: "no" } } } },
      });
    }
    if (path === "/api/v1/Metadata") {
      const object = /^entityDefs\.(\w+)\.fields$/.exec(query.get("key") ?? "")?.[1] ?? "";
      const own = fields.get(object);
      return ok(
        own === undefined
          ? null
          : Object.fromEntries([...own].map(([name, type]) => [name, { type }])),
      );
    }
    if (path !== "/api/v1/Webhook") return undefined;
    if (webhooks === undefined) return forbidden({});
    const list = webhooks.map((event) => ({
      event,
      isActive: true,
      url: `${url}/${event.replace(".", "/")}`,
    }));
    return ok({ total: list.length, list });
  },

  twenty({ path, query }, { fields, forbidden: hidden, url, webhooks }) {
    const refused = { statusCode: 403, error: "PERMISSION_DENIED", messages: ["…"] };
    if (path === "/rest/metadata/objects") {
      const objects = [...fields].map(([nameSingular, own], id) => ({
        id: `o${id}`,
        nameSingular,
        fields: named(own, (name, type) => ({ name, type, isActive: true })),
      }));
      return ok({
        data: { objects },
        pageInfo: { hasNextPage: false },
        totalCount: objects.length,
      });
    }
    const listed = /^\/rest\/(\w+)$/.exec(path)?.[1];
    if (listed !== undefined && query.get("limit") === "1" && !query.has("order_by")) {
      return hidden.has(singular(listed)) ? forbidden(refused) : ok({ data: { [listed]: [] } });
    }
    if (path !== "/rest/metadata/webhooks") return undefined;
    return webhooks === undefined
      ? forbidden(refused)
      : ok([{ id: "w", targetUrl: url, operations: webhooks }]);
  },
};
