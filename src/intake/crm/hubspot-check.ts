/**
 * How HubSpot describes itself. It shows the subscriptions of webhooks to
 * few credentials: not to service keys.
 */
import type { CrmChecker } from "./crm-check.ts";
import { OBJECTS } from "./hubspot.ts";
import {
  HUBSPOT_VERSION,
  hubspotHeaders,
  objectsAddress,
  PLURALS,
  propertiesAddress,
} from "./hubspot-api.ts";
import { textOf } from "./json-value.ts";
import { NO_LIST, objectsIn } from "./record-lister.ts";
import { addressOf, type RecordApi } from "./record-reader.ts";

export const hubspotChecker: CrmChecker = {
  actions: ["creation", "deletion"],
  byField: "propertyChange",
  rare: ["merge", "restore", "privacyDeletion"],
  place: "HubSpot's page of the app, under Webhooks",
  right: (object) => `the scope crm.objects.${PLURALS[object] ?? "custom"}.read`,
  fieldName: ([first, name]) => (first === "properties" ? name : undefined),

  async fields(api, object, wanted) {
    const all = new Map<string, string>();
    // Properties with sensitive data are listed apart, and only to those who may read them.
    for (const dataSensitivity of ["non_sensitive", "sensitive", "highly_sensitive"]) {
      const url = `${propertiesAddress(api, object)}?dataSensitivity=${dataSensitivity}`;
      const properties = objectsIn(await api.get(url, hubspotHeaders(api)), "results");
      if (!Array.isArray(properties)) {
        if (all.size === 0) return properties;
        break;
      }
      for (const { name, type } of properties) all.set(textOf(name), textOf(type));
      if (wanted.every((name) => all.has(name))) break;
    }
    return all.size === 0 ? NO_LIST : all;
  },

  probe: (api, object) => api.get(`${objectsAddress(api, object)}?limit=1`, hubspotHeaders(api)),

  async rights(api) {
    const { scopes } = await tokenInfo(api);
    return Array.isArray(scopes)
      ? new Set((scopes as unknown[]).map((scope) => `the scope ${textOf(scope)}`))
      : undefined;
  },

  async sent(api) {
    const { appId } = await tokenInfo(api);
    const path = `/app-webhooks/${HUBSPOT_VERSION}`;
    const url = addressOf(api.setting("HUBSPOT_API_URL"), path, textOf(appId), "subscriptions");
    const subscriptions = objectsIn(await api.get(url, hubspotHeaders(api)), "results");
    if (!Array.isArray(subscriptions)) return subscriptions;
    const active = subscriptions.filter((one) => one["active"] !== false);
    return new Set(
      active.map(({ eventType, objectTypeId, propertyName }) => {
        const typeId = textOf(objectTypeId);
        const event = textOf(eventType).replace(/^object\./, `${OBJECTS.get(typeId) ?? typeId}.`);
        return `${event} ${textOf(propertyName)}`.trim();
      }),
    );
  },
};

/** Of the token of an app, and of a service key; {} where HubSpot does not tell. */
async function tokenInfo(api: RecordApi): Promise<Readonly<Record<string, unknown>>> {
  const path = "/oauth/v2/private-apps/get/access-token-info";
  const url = addressOf(api.setting("HUBSPOT_API_URL"), path);
  const result = await api.post(url, hubspotHeaders(api), {
    tokenKey: api.setting("HUBSPOT_TOKEN"),
  });
  return result.kind === "found" ? result.body : {};
}
