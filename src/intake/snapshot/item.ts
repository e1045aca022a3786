import { isObject } from "../../core/event/problem.ts";
import { z } from "zod";
import { UserError } from "../../base/user-error.ts";

/** How a file is read where it does not say so itself. */
export const readingSchema = z.object({
  /** Names from an object to its list of records, such as `data.contacts`. */
  records: z.string().optional(),
  /** Rows of a table that are no records, from 1; -1 is the last one. */
  skipRows: z.array(z.int()).readonly().optional(),
  /** Columns of a table that are left out, from 1. */
  skipColumns: z.array(z.int()).readonly().optional(),
});

/** Numbers of rows: from the first one, or with a minus from the last one. */
export const ROWS = /^-?[1-9]\d*$/;
export const COLUMNS = /^[1-9]\d*$/;

/** @param what is said so, for the message. @throws UserError */
export function numbersOf(text: string, what: string, form: RegExp): number[] {
  const numbers = text.split(",").map((number) => number.trim());
  if (numbers.every((number) => form.test(number))) return numbers.map(Number);
  throw new UserError(
    `${what} must be numbers from 1, as 2 or 2,61${form === ROWS ? "; -1 is the last row" : ""}`,
  );
}

export interface Reading extends z.output<typeof readingSchema> {
  /** What is not in the file counts as missing in the CRM: it must be known to be the whole. */
  readonly mustBeWhole?: boolean | undefined;
}

/** One value of a snapshot: a record or an event. */
export interface Item {
  /** Where it is in the file, as messages name it. */
  readonly place: string;
  readonly value: unknown;
  /** Of a row of CSV: a record that has a text in every column. */
  readonly header?: Readonly<Record<string, unknown>>;
}

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
