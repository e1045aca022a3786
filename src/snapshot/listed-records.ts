import { isObject } from "../mapping/is-object.ts";

/** HubSpot, Salesforce, Dataverse, EspoCRM, and Pipedrive, Zoho and many others. Twenty's is one level below. */
const LIST_KEYS = ["results", "records", "value", "list", "data"];

/** What each of these CRMs' answers says when it is not the last page. */
const NEXT_PAGE: readonly ((answer: Readonly<Record<string, unknown>>) => boolean)[] = [
  ({ paging }) => isObject(paging) && isObject(paging["next"]),
  ({ done, nextRecordsUrl }) => done === false || typeof nextRecordsUrl === "string",
  (answer) => typeof answer["@odata.nextLink"] === "string",
  ({ additional_data: more }) => isObject(more) && typeof more["next_cursor"] === "string",
  ({ additional_data: more }) =>
    isObject(more) &&
    isObject(more["pagination"]) &&
    more["pagination"]["more_items_in_collection"] === true,
  ({ total }) => total === -1,
  ({ pageInfo }) => isObject(pageInfo) && pageInfo["hasNextPage"] === true,
  ({ info }) => isObject(info) && info["more_records"] === true,
];

/** Whether a response of a CRM's API says that another page follows it. */
export const namesNextPage = (value: unknown): boolean =>
  isObject(value) &&
  Array.isArray(listedRecords(value)) &&
  NEXT_PAGE.some((saysSo) => saysSo(value));

/** Fields for the number of all records: EspoCRM, Salesforce, Dataverse, Twenty. */
const TOTAL_KEYS = ["total", "totalSize", "@odata.count", "totalCount"];

/** How many records all pages together have, as a response of a CRM's API says; 0 when it does not say. */
export function toldTotal(value: unknown): number {
  if (!isObject(value) || !Array.isArray(listedRecords(value))) return 0;
  return Math.max(0, ...TOTAL_KEYS.map((key) => value[key]).filter((it) => typeof it === "number"));
}

/** The list inside a response of a CRM's API; any other value as it is. */
export function listedRecords(value: unknown): unknown {
  if (!isObject(value) || "specversion" in value) return value;
  const { data, pageInfo } = value;
  const places = LIST_KEYS.map((key) => value[key]);
  if (isObject(data) && isObject(pageInfo)) places.push(...Object.values(data));
  const lists = places.filter((inner) => Array.isArray(inner));
  const [list] = lists;
  return lists.length === 1 && value["id"] === undefined && list?.every(isObject) ? list : value;
}
