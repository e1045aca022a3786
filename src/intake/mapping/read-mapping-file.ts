/** Reads a mapping file. Each mistake is reported with its line, its field and what to do. */
import { type Mistake, type Path } from "./schema-parts.ts";
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import type { Document, LineCounter } from "yaml";
import { isJson, jsonFaultAt } from "../../core/event/exact-json.ts";
import { pathText, valueAt } from "../../core/event/problem.ts";
import { checkMappingFile } from "./check-mapping-file.ts";
import { checkStructure } from "./check-structure.ts";
import { type MappingFile, objectsOf } from "./mapping-file.ts";
import { MappingError } from "./mapping.ts";
import { parseYaml } from "./parse-yaml.ts";
import { businessRelationMapping } from "./business-relation.ts";
import { mappingFileOf } from "./load-mapping.ts";
import type { PresentWhens, WhenRule } from "./whens.ts";

/** Far larger than any real mapping. */
const MAX_BYTES = 1024 * 1024;
const TOO_LARGE = "it is larger than 1 MiB";

/** @throws MappingError when it cannot be read, or is not UTF-8: no byte may become U+FFFD in a field. */
export function mappingText(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new MappingError(file, [
      code === "EISDIR" ? "it is a folder: name a file" : `it cannot be read (${code})`,
    ]);
  }
  if (!isUtf8(bytes)) throw new MappingError(file, ["it is not UTF-8: save it as UTF-8"]);
  return bytes.toString("utf8");
}

/**
 * @param name of the file, for the messages.
 * @throws MappingError with all mistakes of the file.
 */
export function readMappingFile(text: string, name: string): MappingFile {
  const { file, problems } = examineMappingFile(text, name);
  if (file === undefined || problems.length > 0) throw new MappingError(name, problems);
  return file;
}

export interface ExaminedFile {
  /** As the author probably meant it; undefined when that is not clear. */
  readonly file: MappingFile | undefined;
  /** Every mistake, with its place and what to do, in the order of the lines. */
  readonly problems: readonly string[];
}

/** @param further mistakes that were found elsewhere, to be reported with the others. */
export function examineMappingFile(
  text: string,
  name: string,
  further: readonly Mistake[] = [],
): ExaminedFile {
  if (text.length > MAX_BYTES) return { file: undefined, problems: [TOO_LARGE] };
  if (name.endsWith(".json") && !isJson(text)) {
    const { column, isEnd, line } = jsonFaultAt(text);
    const why = isEnd ? "the file is cut off here" : "a comma, a quote or a bracket is wrong here";
    return { file: undefined, problems: [`${name}:${line}:${column}: it is not JSON: ${why}`] };
  }
  const yaml = parseYaml(text);
  const isReadable = yaml.faults.length === 0 || yaml.value !== undefined;
  const { mistakes, file, pathOf } = isReadable
    ? checkStructure(yaml.value)
    : { mistakes: [], file: undefined, pathOf: (path: Path) => path };
  const found = file === undefined ? [] : [...checkMappingFile(file), ...further];
  // A mistake within a part that is reported already is not reported again. A key with a wrong name
  // is no such part: `file` has its value under the right name.
  const wrong = mistakes.flatMap(({ isUnknownKey, path }) => (isUnknownKey === true ? [] : [path]));
  const own = found
    .map((mistake) => ({ ...mistake, path: pathOf(mistake.path) }))
    .filter(({ path }) => !wrong.some((start) => beginsWith(path, start)));
  const placed = [...mistakes, ...own].map((mistake) => ({
    line: lineOf(yaml.document, yaml.lines, mistake.path),
    text: `${where(mistake.path, yaml.value)}${mistake.message}`,
  }));
  const faulty = new Set(yaml.faults.map(({ line }) => line));
  const all = [
    ...yaml.faults.map(({ line, message }) => ({ line, text: message })),
    ...placed.filter(({ line }) => !faulty.has(line)),
  ];
  const problems = all
    .toSorted((a, b) => a.line - b.line)
    .map((one) => `${name}:${one.line}: ${one.text}`);
  return { file, problems: [...new Set(problems)] };
}

const beginsWith = (path: Path, start: Path): boolean =>
  start.length > 0 && start.every((key, index) => path[index] === key);

/** The place for a message: `contact, fields.email: ` for a field of the rule of contacts. */
function where(path: Path, root: unknown): string {
  if (path.length === 0) return "";
  const block = path.slice(0, -1);
  // What may be a block may be its expression alone; then the file has no key `from`.
  const isShort = path.at(-1) === "from" && typeof valueAt(root, block) === "string";
  const [first, index, ...rest] = isShort ? block : path;
  if (first !== "objects" || typeof index !== "number") return `${pathText(path)}: `;
  const named = [valueAt(root, ["objects", index, "object"])]
    .flat()
    .filter((name) => typeof name === "string");
  const object = named.length > 0 ? named.join("/") : `objects[${index}]`;
  return rest.length === 0 ? `${object}: ` : `${object}, ${pathText(rest)}: `;
}

/** The line on which a path of the file begins. */
export function lineOf(document: Document, lines: LineCounter, of: Path): number {
  for (let path = [...of]; path.length > 0; path = path.slice(0, -1)) {
    const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
    const key = path.at(-1);
    const pairs = (parent as { items?: unknown[] } | undefined)?.items ?? [];
    for (const [index, item] of pairs.entries()) {
      const node = item as { key?: { value?: unknown; range?: number[] }; range?: number[] };
      const start =
        node.key !== undefined && String(node.key.value) === String(key)
          ? node.key.range?.[0]
          : index === key
            ? node.range?.[0]
            : undefined;
      if (start !== undefined) return lines.linePos(start).line;
    }
  }
  return 1;
}

/** @param text of the file, which is valid. */
export function whensIn(file: MappingFile, text: string): WhenRule[] {
  const { document, lines } = parseYaml(text);
  return file.objects.flatMap((rule, index) => {
    if (rule.when === undefined) return [];
    const line = lineOf(document, lines, ["objects", index, "when"]);
    const place = `${rule.object.join("/")}.when, line ${line}`;
    return [{ objects: [...objectsOf(rule)], place, text: rule.when }];
  });
}

/** @returns undefined where the mapping has no rules to read: it is code, or cannot be used. */
export function readRules(name: string): MappingFile | undefined {
  try {
    const file = mappingFileOf(name);
    return MODULE.test(file) ? undefined : readMappingFile(mappingText(file), file);
  } catch {
    return undefined;
  }
}

/** @param name of a preset, or path of a mapping file or module; a module has no `when`. */
export function readWhens(name: string): PresentWhens {
  if (name === businessRelationMapping.name) return businessRelationMapping;
  try {
    const file = mappingFileOf(name);
    if (MODULE.test(file)) return { name, whens: [] };
    const text = mappingText(file);
    return { name, whens: whensIn(readMappingFile(text, file), text) };
  } catch {
    return { name, whens: undefined };
  }
}

/** Names of mappings that are code. */
export const MODULE = /\.[cm]?[jt]s$/;
