/**
 * Of a record that may lack fields which the CRM has (`$event.partial`): which of them an expression has read.
 * An absent field is then not known, an empty one is null. A related record that is absent was not read, in any record.
 */
import { isObject } from "../../core/event/problem.ts";

/** Names the absent fields that were read since the last call. */
export type AbsentRead = () => string[];

/**
 * Notices from now on when a field is read that the record lacks. Items of lists are left alone, unless they are related
 * records: expressions look for fields that only some of them have.
 * @param record a copy of `given` without its nulls, which gets a getter for each absent field
 * @param names that expressions read, of a record that may lack any of them
 * @param related names of related records
 */
export function watchAbsent(
  given: object,
  record: object,
  names: Iterable<string>,
  related: Iterable<string> = [],
): AbsentRead {
  const read = new Set<string>();
  const all = [...names];
  const own = [...related];
  watch(given, record, all, read, new Set(own));
  watch(
    given,
    record,
    own.filter((name) => !all.includes(name)),
    read,
  );
  return () => {
    const found = [...read];
    read.clear();
    return found;
  };
}

/** @param inLists lists whose items are looked at; undefined: nothing inside of the record is */
function watch(
  given: unknown,
  record: unknown,
  names: readonly string[],
  read: Set<string>,
  inLists?: ReadonlySet<string>,
): void {
  if (!isObject(given) || !isObject(record)) return;
  for (const [name, inner] of inLists === undefined ? [] : Object.entries(record)) {
    const from = given[name];
    if (!Array.isArray(inner) || !Array.isArray(from)) watch(from, inner, names, read, NO_LISTS);
    else if (inLists?.has(name) === true) {
      for (const [index, item] of inner.entries()) watch(from[index], item, names, read, NO_LISTS);
    }
  }
  for (const name of names) {
    if (Object.hasOwn(given, name)) continue;
    Object.defineProperty(record, name, { get: () => void read.add(name) });
  }
}

const NO_LISTS: ReadonlySet<string> = new Set();
