/** How Pipedrive describes itself: the fields of an object (API v2), and its webhooks (API v1, the only one). */
import type { CrmChecker } from "./crm-check.ts";
import { textOf } from "./json-value.ts";
import { CUSTOM_FIELD, headersOf, list, typesOf } from "./pipedrive-api.ts";
import { objectsIn, pluralOf } from "./record-lister.ts";
import { addressOf } from "./record-reader.ts";

export const pipedriveChecker: CrmChecker = {
  actions: ["create", "change", "delete"],
  place: "Pipedrive's settings, under Webhooks, version 2.0",
  right: (object) => `a user who sees all ${pluralOf(object)}`,
  fieldName: ([first, name]) => (first === "custom_fields" ? name : first),

  async fields(api, object, wanted) {
    const types = await typesOf(api, object, new Set(wanted));
    if ("kind" in types) return types;
    // Fields that are not custom have other names in this list than in records.
    const sample = await list(api, pluralOf(object), "id", undefined, { limit: "1" });
    if (sample.kind !== "page") return sample;
    const [first] = sample.records;
    const names = first === undefined ? wanted : Object.keys(first.record);
    const own = names.filter((name) => !CUSTOM_FIELD.test(name));
    return new Map([...own.map((name) => [name, ""] as const), ...types]);
  },

  async sent(api) {
    const url = addressOf(api.setting("PIPEDRIVE_API_URL"), "/v1/webhooks");
    const webhooks = objectsIn(await api.get(url, headersOf(api)), "data");
    if (!Array.isArray(webhooks)) return webhooks;
    const ours = webhooks.filter(({ is_active: active, subscription_url: to, version }) => {
      const isTwo = textOf(version).startsWith("2");
      return isTwo && Number(active) === 1 && textOf(to).includes("/webhooks/pipedrive");
    });
    return new Set(
      ours.map((one) => `${textOf(one["event_object"])}.${textOf(one["event_action"])}`),
    );
  },
};
