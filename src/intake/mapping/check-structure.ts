/**
 * Checks the structure of a mapping file. What is wrong is reported, and corrected in a copy, so that
 * the rest of the file is checked as well.
 */
import { type Mistake, type Path } from "./schema-parts.ts";
import { valueAt, isObject } from "../../core/event/problem.ts";
import { mappingFile, type MappingFile } from "./mapping-file.ts";
import { meantKey, mistakesOf, WEBHOOK_STAND_INS } from "./mapping-mistakes.ts";

export interface CheckedStructure {
  readonly mistakes: readonly Mistake[];
  /** As the author probably meant it; undefined when that is not clear. */
  readonly file: MappingFile | undefined;
  /** The path in the file of a path in `file`. */
  readonly pathOf: (path: Path) => Path;
}

/** Mistakes of keys hide those of their values, which are found in a second round. */
const MAX_ROUNDS = 5;

export function checkStructure(value: unknown): CheckedStructure {
  const copy: unknown = structuredClone(value);
  const renamed = new Map<string, string>();
  const pathOf = (path: Path): Path =>
    path.map((key, index) => renamed.get(JSON.stringify(path.slice(0, index + 1))) ?? key);
  const mistakes: Mistake[] = [];
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const parsed = mappingFile.safeParse(copy);
    if (parsed.success) return { mistakes, file: parsed.data, pathOf };
    const found = parsed.error.issues.flatMap((issue) => mistakesOf(issue));
    // A key that is missing may be there under a wrong name: correct the names first.
    const misnamed = found.filter((one) => one.isUnknownKey === true && one.path[0] !== "webhooks");
    const handled = misnamed.length > 0 ? misnamed : found;
    mistakes.push(...handled.map((mistake) => ({ ...mistake, path: pathOf(mistake.path) })));
    for (const { path } of handled) {
      if (misnamed.length > 0) rename(copy, path, renamed);
      else if (!correct(copy, path)) return { mistakes, file: undefined, pathOf };
    }
  }
  return { mistakes, file: undefined, pathOf };
}

/** Gives an unknown key the name that is probably meant, or removes it. */
function rename(root: unknown, path: Path, renamed: Map<string, string>): void {
  const parent = path.slice(0, -1);
  const key = String(path.at(-1));
  const block = valueAt(root, parent);
  if (!isObject(block)) return;
  const isKey = key === "crmCode" && parent.at(-1) === "fields";
  const target = isKey ? parent.slice(0, -1) : parent;
  const name = isKey ? key : meantKey(parent, key);
  const value = block[key];
  delete block[key];
  const place = valueAt(root, target);
  if (name === undefined || !isObject(place) || Object.hasOwn(place, name)) return;
  place[name] = value;
  renamed.set(JSON.stringify([...target, name]), key);
}

/** What replaces a missing or wrong value in the copy. */
const STAND_INS: Readonly<Record<string, unknown>> = {
  version: 1,
  object: "?",
  when: "x",
  crmCode: "$event.recordId",
  fields: {},
};

/** @returns false if the rest of the file would make no sense. */
function correct(root: unknown, path: Path): boolean {
  const key = path.at(-1);
  const [section] = path;
  const parent = path.slice(0, -1);
  const block = valueAt(root, parent);
  if (section === "tables") return path.length > 1 && replace(block, key, {});
  if (section === "webhooks" && path.length > 2) {
    const name = String(path[2]);
    return replace(valueAt(root, path.slice(0, 2)), name, WEBHOOK_STAND_INS.get(name));
  }
  if ((section === "webhooks" || section === "pull") && path.length > 1) {
    return replace(valueAt(root, [section]), path[1], undefined);
  }
  if (section !== "objects") return replace(root, section, STAND_INS[String(section)]);
  if (path.length < 3) return false;
  if (typeof key === "number") return correct(root, parent);
  if (path.length === 3) return replace(block, key, STAND_INS[String(key)]);
  if (path[2] === "with") return replace(valueAt(root, path.slice(0, 3)), path[3], undefined);
  const isWholeField = path.length === 4 || key === "from" || key === "value";
  return isWholeField
    ? replace(valueAt(root, path.slice(0, 3)), path[3], "x")
    : replace(block, key, undefined);
}

/** @param value undefined: the key is removed. */
function replace(block: unknown, key: string | number | undefined, value: unknown): boolean {
  if (!isObject(block) || typeof key !== "string") return false;
  if (value === undefined) delete block[key];
  else block[key] = structuredClone(value);
  return true;
}
