import { cut } from "../service-spec/characters.ts";

/** The longest path that is reported: keys are the sender's own text. */
const MAX_PATH = 100;

/**
 * Finds a string, or the name of a field, with half of a surrogate pair, which is no character and
 * which other programs refuse to read.
 * @param value nested not too deep for recursion.
 * @returns where the first one is, for instance `data.record.lastName`; undefined if there is none.
 */
export function findIllFormed(value: unknown, path = ""): string | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : shorten(path);
  if (typeof value !== "object" || value === null) return undefined;
  const isList = Array.isArray(value);
  for (const [key, inner] of Object.entries(value)) {
    const place = isList ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`;
    if (!key.isWellFormed()) return shorten(place);
    const found = findIllFormed(inner, place);
    if (found !== undefined) return found;
  }
  return undefined;
}

const shorten = (path: string): string => cut(path, MAX_PATH).toWellFormed();
