/** The list of records inside an object: an answer of an API, or an export that wraps its list. */
import { isObject } from "../mapping/is-object.ts";
import { UserError } from "../ops/user-error.ts";

/** HubSpot, Salesforce, Dataverse, EspoCRM, Pipedrive, Zoho, and what others use. Twenty's is one level below. */
const LIST_KEYS = ["results", "records", "value", "list", "data", "items", "entries", "content"];

/** The list inside an object that wraps one; any other value as it is. */
export function listedRecords(value: unknown): unknown {
  if (!isObject(value) || "specversion" in value || value["id"] !== undefined) return value;
  const { data, pageInfo } = value;
  const places = LIST_KEYS.map((key) => value[key]);
  if (isObject(data) && isObject(pageInfo)) places.push(...Object.values(data));
  const lists = [...new Set(places)].filter((inner) => Array.isArray(inner));
  const [list] = lists;
  return lists.length === 1 && list?.every(isObject) ? list : value;
}

/**
 * @param path names from the object to its list, such as `data.contacts`
 * @throws UserError when there is no list
 */
export function listAt(place: string, value: unknown, path: string): readonly unknown[] {
  let at = value;
  for (const name of path.split(".")) {
    at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  if (Array.isArray(at)) return at;
  throw new UserError(`${place} has no list at ${path}: --records must say where the list is`);
}
