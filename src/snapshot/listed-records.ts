import { isObject } from "../mapping/is-object.ts";

/** HubSpot, Salesforce, Dataverse, EspoCRM, and Pipedrive, Zoho and many others. */
const LIST_KEYS = ["results", "records", "value", "list", "data"];

/** The list inside a response of a CRM's API; any other value as it is. */
export function listedRecords(value: unknown): unknown {
  if (!isObject(value) || "specversion" in value) return value;
  const lists = LIST_KEYS.map((key) => value[key]).filter((inner) => Array.isArray(inner));
  const [list] = lists;
  return lists.length === 1 && value["id"] === undefined && list?.every(isObject) ? list : value;
}
