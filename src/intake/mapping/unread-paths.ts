/**
 * Finds what a mapping reads and no record of a file has. A file that lacks a field altogether does not say that the
 * field is empty. Pure.
 */
import { isObject } from "../../core/event/problem.ts";
import { crmsync } from "../../base/command.ts";
import { unreadMarks } from "./gone.ts";
import type { FieldPath } from "./expression-tree.ts";
import type { CrmRecord, FieldSources, Mapping } from "./mapping.ts";
import { nearest } from "./compare-texts.ts";

/** A path that is in no record of a file; or one that a mapping should perhaps read. */
export interface Unread {
  readonly path: string;
  /** The records have it, nothing reads it, and its name looks like a mark of deleted records. */
  readonly isMark?: true;
  /** What is made of it: fields of the service, `crmCode`, `when`. */
  readonly fields: readonly string[];
  /** Whether the file is a table. */
  readonly isColumn: boolean;
  /** The name in the file that is most like it. */
  readonly nearest?: string;
}

/** For a field of the service: whether no expression of any rule for the object can make it of this file. */
export type NotCarried = Readonly<Record<string, boolean>>;

/** Records whose names are looked at for what was meant. */
const NAMED_RECORDS = 200;

export class PathSearch {
  readonly #sources: readonly FieldSources[];
  /** Names that the mapping reads; empty when it does not know. */
  readonly #reads: ReadonlySet<string>;
  /** By object: paths that no record had so far, by their text. */
  readonly #missing = new Map<string, Map<string, FieldPath>>();
  readonly #names = new Set<string>();
  #records = 0;
  #header: CrmRecord | undefined;

  constructor({ reads = new Set(), sources = [] }: Partial<Pick<Mapping, "reads" | "sources">>) {
    this.#sources = sources;
    this.#reads = reads;
  }

  /** @param header of a row of a table: a record with all columns */
  see(object: string, record: CrmRecord | undefined, header?: CrmRecord): void {
    const seen = header ?? record;
    if (seen === undefined || (header !== undefined && header === this.#header)) return;
    this.#header = header;
    const missing = this.#missingOf(object.toLowerCase());
    for (const [text, path] of missing) if (has(seen, path)) missing.delete(text);
    if (this.#records < NAMED_RECORDS) for (const name of namesIn(seen, "")) this.#names.add(name);
    this.#records += 1;
  }

  unread(): Unread[] {
    const fields = new Map<string, { path: FieldPath; fields: Set<string> }>();
    for (const [object, missing] of this.#missing) {
      for (const { field, objects, sources } of this.#of(object)) {
        // Records that have the service's own fields need not have all of them.
        const isComplete = sources.some((paths) => paths.every((path) => !missing.has(text(path))));
        if (objects.length === 0 || isComplete) continue;
        for (const path of sources.flat()) {
          const name = text(path);
          const known = fields.get(name) ?? { path, fields: new Set() };
          if (missing.has(name)) fields.set(name, { ...known, fields: known.fields.add(field) });
        }
      }
    }
    const isColumn = this.#header !== undefined;
    const lacking = [...fields].map(([path, found]) => {
      const near = nearestTo(found.path, found.fields, this.#names);
      return { path, fields: [...found.fields], isColumn, ...(near && { nearest: near }) };
    });
    return [...lacking, ...this.#marks(isColumn)];
  }

  #marks(isColumn: boolean): Unread[] {
    if (this.#reads.size === 0) return [];
    const isRead = (path: string) => path.split(".").some((name) => this.#reads.has(name));
    return unreadMarks(this.#names, isRead).map((path) => {
      return { path, fields: [], isColumn, isMark: true };
    });
  }

  /** By object, in lower case. */
  notCarried(): Record<string, NotCarried> {
    return Object.fromEntries(
      [...this.#missing.keys()].map((object) => [object, this.#lacks(object)]),
    );
  }

  #lacks(object: string): NotCarried {
    const missing = this.#missingOf(object);
    const lacks: Record<string, boolean> = {};
    const all = this.#of(object).map(({ field, sources }) => {
      const isMade = sources.some(
        (paths) => paths.length === 0 || paths.some((path) => !missing.has(text(path))),
      );
      return { field, isMade };
    });
    for (const { field, isMade } of all) if (!isMade) lacks[field] = true;
    for (const { field, isMade } of all) if (isMade && field in lacks) lacks[field] = false;
    return lacks;
  }

  #missingOf(object: string): Map<string, FieldPath> {
    const known = this.#missing.get(object);
    if (known !== undefined) return known;
    const paths = this.#of(object).flatMap(({ sources }) => sources.flat());
    const missing = new Map(paths.map((path) => [text(path), path]));
    this.#missing.set(object, missing);
    return missing;
  }

  /** A payload that is no row of a table is whole: what it lacks is empty. */
  #of(object: string): FieldSources[] {
    const isTable = this.#header !== undefined;
    return this.#sources.filter(({ objects }) =>
      objects.length === 0 ? isTable : objects.includes(object),
    );
  }
}

const text = (path: FieldPath): string => path.join(".");

/** A record may say that there is nothing: by null or an empty text, or by a list without items. */
export function has(value: unknown, path: FieldPath, from = 0): boolean {
  const name = path[from];
  if (name === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0 || value.some((one) => has(one, path, from));
  return isObject(value) && Object.hasOwn(value, name) && has(value[name], path, from + 1);
}

function* namesIn(value: unknown, prefix: string): Generator<string> {
  for (const one of [value].flat()) {
    if (!isObject(one)) continue;
    for (const [name, inner] of Object.entries(one)) {
      yield `${prefix}${name}`;
      yield* namesIn(inner, `${prefix}${name}.`);
    }
  }
}

/** By the whole path, its last or first name, or the field: a flat file has `town` or `address_town` for `address.town`. */
function nearestTo(
  path: FieldPath,
  fields: ReadonlySet<string>,
  names: ReadonlySet<string>,
): string | undefined {
  const byLetters = new Map([...names].map((name) => [letters(name), name]));
  const same = (name: string) => byLetters.get(letters(name));
  const wanted = [text(path), path.at(-1) ?? "", path[0] ?? ""];
  const found = wanted.map((name) => same(name) ?? nearest(name, names));
  return [...found, ...[...fields].map(same)].find((name) => name !== undefined);
}

const letters = (name: string): string => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");

/** For people. @param most lines, at most */
export function unreadLines(unread: readonly Unread[], most = Infinity): string[] {
  const lines = unread.slice(0, most).map(({ fields, isColumn, isMark, nearest: near, path }) => {
    if (isMark === true) {
      const written = /^\w[\w.]*$/.test(path) ? path : JSON.stringify(path);
      return `\`${path}\` looks like a mark of deleted records, and nothing reads it: if it is one, write \`gone: ${written}\` under the object in the mapping`;
    }
    const what = isColumn ? "no such column" : "no record has it";
    const meant = near === undefined ? "" : `; nearest: \`${near}\``;
    return `${fields.join(", ")}: the mapping reads \`${path}\`; ${what}${meant}`;
  });
  const more = unread.length - lines.length;
  return more === 0
    ? lines
    : [...lines, `and ${more} more: ${crmsync`mapping check --sample FILE`}`];
}
