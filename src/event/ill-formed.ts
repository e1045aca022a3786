import { cut } from "../service-spec/characters.ts";

/** The longest path that is reported: keys are the sender's own text. */
const MAX_PATH = 100;

/**
 * Finds a string, or the name of a field, with half of a surrogate pair, which is no character and
 * which other programs refuse to read.
 * @param value nested not too deep for recursion.
 * @returns where the first one is, for instance `data.record.lastName`; undefined if there is none.
 */
export function findIllFormed(value: unknown): string | undefined {
  const path = pathTo(value, (one) => typeof one === "string" && !one.isWellFormed());
  return path === undefined ? undefined : shorten(path.replace(/^\./, ""));
}

/** Whether it has an integer that a number cannot hold, and that a parser may so have rounded. */
export const hasRounded = (value: unknown): boolean =>
  pathTo(value, (one) => Number.isInteger(one) && !Number.isSafeInteger(one)) !== undefined;

type Is = (value: unknown) => boolean;

/** Nearly every value is usable: a path is made on the way back from what is not. */
function pathTo(value: unknown, is: Is): string | undefined {
  if (typeof value !== "object" || value === null) return is(value) ? "" : undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const key in fields) {
    const path = is(key) ? "" : pathTo(fields[key], is);
    if (path !== undefined) return `${Array.isArray(value) ? `[${key}]` : `.${key}`}${path}`;
  }
  return undefined;
}

const shorten = (path: string): string => cut(path, MAX_PATH).toWellFormed();
