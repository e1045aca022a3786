/** How EspoCRM describes itself, since 8.2: the rights of the API user, an entity's fields, its webhooks. */
import { isObject } from "../../core/event/problem.ts";
import { NO_OBJECT } from "./api-client.ts";
import type { CrmChecker } from "./crm-check.ts";
import { headersOf } from "./espocrm-api.ts";
import { textOf, type Json } from "./json-value.ts";
import { objectsIn } from "./record-lister.ts";
import { addressOf, UNKNOWN_OBJECT, type RecordApi } from "./record-reader.ts";

/** What EspoCRM adds to the name of a field for its values: `accountId` of `account`. */
const PARTS = /(?:Ids?|Names?|Types?|Data|Columns|Currency|Converted|IsOptedOut|IsInvalid)$/;

export const espocrmChecker: CrmChecker = {
  actions: ["create", "update", "delete"],
  place: "Administration → Webhooks (an API user sees its own ones)",
  right: (object) => `a role with read access to ${object}`,
  fieldName: ([name = ""]) => (name === "id" || name === "deleted" ? undefined : name),

  async fields(api, object, wanted) {
    const user = await get(api, "App/user");
    if (user.kind !== "found") return user;
    const acl = partOf(user.body, "acl");
    const right = partOf(acl, "table")[object];
    if (right === false || (isObject(right) && right["read"] === "no")) {
      return { kind: "client_error", reason: "HTTP 403", isDenied: true };
    }
    const result = await get(api, `Metadata?key=entityDefs.${encodeURIComponent(object)}.fields`);
    // Of an entity that it does not have, EspoCRM answers null.
    if (result.kind !== "found") {
      return result.kind === "unavailable" && result.reason === NO_OBJECT ? UNKNOWN_OBJECT : result;
    }
    const forbidden = partOf(partOf(acl, "fieldTable"), object);
    const known = new Map<string, string>();
    for (const name of [...Object.keys(result.body), ...wanted]) {
      const field = name in result.body ? name : name.replace(PARTS, "");
      const isForbidden = partOf(forbidden, field)["read"] === "no";
      if (field in result.body && !isForbidden) {
        known.set(name, textOf(partOf(result.body, field)["type"]));
      }
    }
    return known;
  },

  async sent(api) {
    const query = "Webhook?maxSize=200&select=event,url,isActive";
    const webhooks = objectsIn(await get(api, query), "list");
    if (!Array.isArray(webhooks)) return webhooks;
    return new Set(
      webhooks.flatMap(({ event, isActive, url }) => {
        // The address must name the event, since the request does not.
        const path = `/webhooks/espocrm/${textOf(event).replace(".", "/")}`;
        return isActive === true && textOf(url).endsWith(path) ? [textOf(event)] : [];
      }),
    );
  },
};

const partOf = (value: Json, name: string): Json => {
  const part = value[name];
  return isObject(part) ? part : {};
};

const get = (api: RecordApi, path: string) =>
  api.get(`${addressOf(api.setting("ESPOCRM_URL"), "/api/v1")}/${path}`, headersOf(api));
