/**
 * Of a record that may lack fields which the CRM has (`$event.partial`): which of them an expression has read.
 * An absent field is then not known, an empty one is null.
 */
import { isObject } from "./is-object.ts";

/** Names the absent fields that were read since the last call. */
export type AbsentRead = () => string[];

/**
 * Notices from now on when a field is read that the record lacks. Items of lists are left alone: expressions
 * look for fields that only some of them have.
 * @param record a copy of `given` without its nulls, which gets a getter for each absent field
 * @param names that expressions read
 */
export function watchAbsent(given: object, record: object, names: Iterable<string>): AbsentRead {
  const read = new Set<string>();
  watch(given, record, [...names], read);
  return () => {
    const found = [...read];
    read.clear();
    return found;
  };
}

function watch(given: object, record: object, names: readonly string[], read: Set<string>): void {
  for (const [name, inner] of Object.entries(record)) {
    if (isObject(inner)) watch((given as Record<string, object>)[name] ?? {}, inner, names, read);
  }
  for (const name of names) {
    if (Object.hasOwn(given, name)) continue;
    Object.defineProperty(record, name, { get: () => void read.add(name) });
  }
}
