/**
 * Of a record that may lack fields which the CRM has (`$event.partial`): which of them an expression has read.
 * An absent field is then not known, an empty one is null. A related record that is absent was not read, in any record.
 */
import { isObject } from "./is-object.ts";

/** Names the absent fields that were read since the last call. */
export type AbsentRead = () => string[];

/** What a record may lack without being known to be empty. */
interface MayLack {
  /** Names that expressions read, of a record that may lack any of them. */
  readonly names: Iterable<string>;
  /** Names of related records. */
  readonly related?: Iterable<string>;
}

/**
 * Notices from now on when a field is read that the record lacks. Items of lists are left alone, unless they are related
 * records: expressions look for fields that only some of them have.
 * @param record a copy of `given` without its nulls, which gets a getter for each absent field
 */
export function watchAbsent(
  given: object,
  record: object,
  { names, related = [] }: MayLack,
): AbsentRead {
  const read = new Set<string>();
  const all = [...names];
  watch(given, record, all, read);
  for (const name of related) {
    const [items, copies] = [given, record].map((one) => (one as Record<string, unknown>)[name]);
    if (Array.isArray(items) && Array.isArray(copies)) {
      for (const [index, copy] of copies.entries()) watch(items[index], copy, all, read);
    }
    if (!all.includes(name)) watch(given, record, [name], read, false);
  }
  return () => {
    const found = [...read];
    read.clear();
    return found;
  };
}

function watch(
  given: unknown,
  record: unknown,
  names: readonly string[],
  read: Set<string>,
  isDeep = true,
): void {
  if (!isObject(given) || !isObject(record)) return;
  for (const [name, inner] of isDeep ? Object.entries(record) : []) {
    watch(given[name], inner, names, read);
  }
  for (const name of names) {
    if (Object.hasOwn(given, name)) continue;
    Object.defineProperty(record, name, { get: () => void read.add(name) });
  }
}
