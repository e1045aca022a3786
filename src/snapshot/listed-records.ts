/** What an answer of a CRM's API says beside its records: whether other pages follow. */
import { isObject } from "../mapping/is-object.ts";

/** HubSpot, Salesforce, Dataverse, EspoCRM, Pipedrive, Zoho, and what others use. Twenty's is one level below. */
const LIST_KEYS = ["results", "records", "value", "list", "data", "items", "entries", "content"];

type Answer = Readonly<Record<string, unknown>>;

/** The list inside a response of a CRM's API; any other value as it is. */
export function listedRecords(value: unknown): unknown {
  if (!isObject(value) || "specversion" in value) return value;
  const { data, pageInfo } = value;
  const places = LIST_KEYS.map((key) => value[key]);
  if (isObject(data) && isObject(pageInfo)) places.push(...Object.values(data));
  // Under another name, such as `contacts`, it stands beside nothing but what is said of the page.
  const named = Object.entries(value).filter(([, inner]) => Array.isArray(inner));
  const others = Object.keys(value).filter((key) => key !== named[0]?.[0]);
  if (named.length === 1 && others.length > 0 && others.every(isOfPage)) places.push(named[0]?.[1]);
  const lists = [...new Set(places)].filter((inner) => Array.isArray(inner));
  const [list] = lists;
  return lists.length === 1 && value["id"] === undefined && list?.every(isObject) ? list : value;
}

/** Fields that name the next page; Dataverse answers a query in FetchXML with a cookie. */
const NEXT =
  /^(odata|hydra)?next(page|link|url|uri|href|cursor|token|marker|key|skip|start|pagetoken|pageurl|pagelink|recordsurl|offset|batch)?$|^continuation(token)?$|fetchxmlpagingcookie$/;

/** Fields that say that more follow when they are true, and those that say so when they are false. */
const MORE =
  /^(has|is)?(more|next|nextpage|truncated)$|more(records|itemsincollection|available|results)$|^incomplete(results)?$|countlimitexceeded$/;
const LAST = /^(is)?(last|done|complete|lastpage)$/;

/** Fields that name a place in the list: where no other says whether more follow, they do. */
const PLACE = /^(after|cursor|endcursor|offset|pagetoken|scrollid)$/;

/** Fields for the number of all records, and of all pages. */
const TOTAL =
  /^(total|totalsize|odatacount|count|(entry|record|row)count|(hydra|x)?total(count|results|elements|items|records|rows|hits)|.*totalrecordcount)$/;
const PAGES = /^(pages|totalpages?|pagecount|numberofpages|lastpage)$/;
const PAGE = /^(page|currentpage|pagenumber|pageindex|number)$/;

/** What else stands beside a list. */
const OF_PAGE = /^(meta(data)?|links?|paging|pageinfo|pagination|info|limit|perpage|pagesize)$/;

/** Objects in objects that are looked at: `meta.pagination.next`. */
const MAX_DEPTH = 3;

const isOfPage = (key: string): boolean =>
  [NEXT, MORE, LAST, PLACE, TOTAL, PAGES, PAGE, OF_PAGE].some((names) => names.test(nameOf(key)));

/** A field in small letters without signs. */
const nameOf = (key: string): string => key.replaceAll(/[^a-zA-Z]/g, "").toLowerCase();

/** What one answer says of the whole that it belongs to. */
export interface PageHints {
  /** The field that says that more records follow; undefined: none does. */
  readonly next: string | undefined;
  /** How many records and pages there are, at least; 0: it does not say. */
  readonly total: number;
  readonly pages: number;
}

/** @param value one value of a file; only an answer with a list has hints. */
export function hintsIn(value: unknown): PageHints {
  if (!isObject(value) || !Array.isArray(listedRecords(value))) {
    return { next: undefined, total: 0, pages: 0 };
  }
  const fields = [...fieldsOf(value, "", 0)];
  const found = (name: RegExp, says: (value: unknown) => boolean) =>
    fields.find((field) => name.test(field.name) && says(field.value))?.path;
  const numbers = (name: RegExp) =>
    fields.flatMap((field) =>
      name.test(field.name) && /^\d+$/.test(textOf(field.value)) ? [Number(field.value)] : [],
    );
  const isTold = fields.some(
    ({ name, value: says }) =>
      (MORE.test(name) || LAST.test(name)) && /^(true|false)$/i.test(textOf(says)),
  );
  const next =
    found(NEXT, isSomething) ??
    found(/^rel$/, (rel) => rel === "next") ??
    found(MORE, (says) => /^(true|1)$/i.test(textOf(says))) ??
    found(LAST, (says) => /^(false|0)$/i.test(textOf(says))) ??
    found(TOTAL, (says) => says === -1) ??
    (isTold ? undefined : found(PLACE, (place) => typeof place === "string" && place !== ""));
  const pages = Math.max(0, ...numbers(PAGES));
  // The last page knows its number; pages may be counted from 0.
  const isLastPage = numbers(PAGE).some((page) => page >= pages);
  return { next, total: Math.max(0, ...numbers(TOTAL)), pages: isLastPage ? 0 : pages };
}

/** Some programs write true and numbers as texts. */
const textOf = (value: unknown): string =>
  typeof value === "object" && value !== null ? "" : String(value);

const isSomething = (value: unknown): boolean =>
  (typeof value === "string" && value !== "") ||
  (typeof value === "number" && value > 0) ||
  value === true ||
  (isObject(value) && Object.keys(value).length > 0);

/** The fields beside the records, with names in small letters and without signs. */
function* fieldsOf(
  value: Answer,
  path: string,
  depth: number,
): Generator<{ readonly name: string; readonly path: string; readonly value: unknown }> {
  const records = depth === 0 ? listedRecords(value) : undefined;
  for (const [key, inner] of Object.entries(value)) {
    if (inner === records) continue;
    const at = path === "" ? key : `${path}.${key}`;
    yield { name: nameOf(key), path: at, value: inner };
    if (depth === MAX_DEPTH) continue;
    for (const part of [inner].flat()) {
      if (isObject(part) && !holds(part, records)) yield* fieldsOf(part, at, depth + 1);
    }
  }
}

/** Twenty's list is one level below: `data.people`. */
const holds = (value: Answer, records: unknown): boolean => Object.values(value).includes(records);
