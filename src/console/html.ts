/** The views' template tag: every value is escaped, and shown without characters that hide or reorder text. */
import { html as escaped } from "hono/html";
import { printable } from "../ops/printable.ts";

export type Html = Exclude<ReturnType<typeof escaped>, Promise<unknown>>;

export type Value = string | number | false | undefined | Html | readonly Value[];

/** Shows no hidden characters: what a form must send back unchanged goes into an address (`pathTo`). */
export const html = (strings: TemplateStringsArray, ...values: readonly Value[]): Html =>
  // A promise comes only of a value that is one; `Value` excludes it.
  escaped(strings, ...values.map(shown)) as Html;

function shown(value: Value): unknown {
  if (typeof value === "string") return printable(value);
  return Array.isArray(value) ? (value as readonly Value[]).map(shown) : value;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** An address of the console; values of any text come back as they were, undefined ones are left out. */
export function pathTo(path: string, query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  return `${path}?${new URLSearchParams(given).toString()}`;
}
