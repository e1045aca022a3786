/** Brings one raw value into the form that a field has. */
import { isEmail } from "../../service-spec/business-relation.ts";
import { cleanText } from "../clean.ts";
import type { Form } from "../fields.ts";
import { fold, lookUp } from "../fold.ts";
import type { WarningReason } from "../mapping.ts";
import { toBoolean } from "./boolean.ts";
import { toCountry } from "./country.ts";
import { toDate } from "./date.ts";
import { toLanguage } from "./language.ts";
import { toNumber } from "./number.ts";
import { toE164 } from "./phone.ts";

export type Scalar = string | number | boolean;

/** Folded value of the CRM → value of the service; null: leave it out, and say nothing. */
export type Table = ReadonlyMap<string, Scalar | null>;

export interface Wanted {
  readonly form: Form;
  /** The closed list that the value must be of, where there is one. */
  readonly values?: readonly string[] | undefined;
  readonly table?: Table | undefined;
  readonly separator?: string | undefined;
  readonly format?: string | undefined;
  /** Of telephone numbers that are written without their country's prefix. */
  readonly country?: string | undefined;
}

export interface Refused {
  readonly reason: WarningReason;
  readonly value: unknown;
}

export interface Normalised {
  /** Undefined: there is nothing, or nothing that could be used. */
  readonly value: Scalar | readonly string[] | undefined;
  /** What the record had and the value has not. */
  readonly refused: readonly Refused[];
}

const NOTHING: Normalised = { value: undefined, refused: [] };

const refuse = (reason: WarningReason, value: unknown): Normalised => ({
  value: undefined,
  refused: [{ reason, value }],
});

export function normalise(raw: unknown, wanted: Wanted): Normalised {
  if (wanted.form === "list") return normaliseList(raw, wanted);
  // An expression over a list gives a list, also when it finds just one thing.
  const items: unknown[] = Array.isArray(raw)
    ? raw.flat(3).filter((item) => toScalar(item) !== "nothing")
    : [raw];
  if (items.length > 1) return refuse("not_understood", raw);
  const [one] = items;
  const scalar = toScalar(one);
  if (scalar === "nothing") return NOTHING;
  if (scalar === undefined) return refuse("not_understood", one);
  return normaliseScalar(scalar.value, wanted);
}

function normaliseList(raw: unknown, wanted: Wanted): Normalised {
  const items: unknown[] = Array.isArray(raw)
    ? raw.flat(3)
    : typeof raw === "string"
      ? raw.split(wanted.separator ?? ";")
      : [raw];
  const values = new Set<string>();
  const refused: Refused[] = [];
  for (const item of items) {
    const scalar = toScalar(item);
    if (scalar === "nothing") continue;
    const one =
      scalar === undefined
        ? refuse("not_understood", item)
        : normaliseScalar(scalar.value, { ...wanted, form: "text" });
    if (one.value !== undefined) values.add(String(one.value));
    refused.push(...one.refused);
  }
  return { value: values.size === 0 ? undefined : [...values], refused };
}

function toScalar(raw: unknown): { value: Scalar } | "nothing" | undefined {
  if (raw === undefined || raw === null) return "nothing";
  if (typeof raw === "string") {
    const value = cleanText(raw);
    return value === "" ? "nothing" : { value };
  }
  if (typeof raw === "boolean") return { value: raw };
  return typeof raw === "number" && Number.isFinite(raw) ? { value: raw } : undefined;
}

function normaliseScalar(value: Scalar, wanted: Wanted): Normalised {
  const { table, values } = wanted;
  if (table !== undefined) {
    const found = table.get(tableKey(String(value)));
    if (found === null) return NOTHING;
    if (found !== undefined) return { value: found, refused: [] };
  }
  if (values !== undefined) {
    const found = lookUp(String(value), values);
    if (found !== undefined) return { value: found, refused: [] };
    return refuse(table === undefined ? "not_in_list" : "not_in_table", value);
  }
  if (table !== undefined) return refuse("not_in_table", value);
  return toForm(value, wanted);
}

/** Two spellings of one value meet in one entry; what has no letters or digits stands for itself. */
export function tableKey(text: string): string {
  const key = fold(text);
  return key === "" ? cleanText(text) : key;
}

function toForm(value: Scalar, wanted: Wanted): Normalised {
  const formed = formOf(value, wanted);
  if (formed !== undefined) return { value: formed, refused: [] };
  // The spec has no form for telephone numbers, so the written one may go; somebody should know.
  if (wanted.form === "phone" && typeof value !== "boolean") {
    return { value: String(value), refused: [{ reason: "kept_as_is", value }] };
  }
  return refuse(wanted.form === "email" ? "not_accepted" : "not_understood", value);
}

function formOf(value: Scalar, wanted: Wanted): Scalar | undefined {
  switch (wanted.form) {
    case "boolean":
      return toBoolean(value);
    case "date":
      return typeof value === "boolean" ? undefined : toDate(value, wanted.format);
    case "number": {
      const number = typeof value === "boolean" ? undefined : toNumber(value);
      return number === undefined ? undefined : String(number);
    }
    case "country":
      return toCountry(String(value));
    case "language":
      return toLanguage(String(value));
    case "phone":
      return typeof value === "boolean" ? undefined : toE164(String(value), wanted.country);
    case "email": {
      const address = String(value).replace(/^mailto:/i, "");
      return isEmail(address) ? address : undefined;
    }
    case "text":
      return typeof value === "boolean" ? undefined : String(value);
    case "list":
      return undefined;
  }
}
