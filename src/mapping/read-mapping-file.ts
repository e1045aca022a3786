/** Reads a mapping file; every fault is told with its line, its field and what to do. */
import { LineCounter, parseDocument, visit, type Document } from "yaml";
import { checkMappingFile } from "./check-mapping-file.ts";
import { mappingFile, type MappingFile } from "./mapping-file.ts";
import { aliasFault, faultsOf, yamlFault } from "./mapping-faults.ts";
import { MappingError } from "./mapping.ts";

export type Path = readonly (string | number)[];

/** One fault of a mapping file, at a place in its tree. */
export interface Fault {
  readonly path: Path;
  readonly says: string;
}

/** Larger than any mapping that somebody wrote. */
const MAX_BYTES = 1024 * 1024;

/**
 * @param name of the file, for the messages.
 * @throws MappingError with every fault of the file.
 */
export function readMappingFile(text: string, name: string): MappingFile {
  if (text.length > MAX_BYTES) throw new MappingError(name, ["it is larger than 1 MiB"]);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  // The first is the slip; the others are where the parser stumbled after it. What it warns of, a
  // tag that nobody defined, is no less a slip here.
  const [slip] = [...document.errors, ...document.warnings];
  if (slip !== undefined) {
    const { line } = lines.linePos(slip.pos[0]);
    throw new MappingError(name, [`${name}:${line}: ${yamlFault(slip)}`]);
  }
  const value = plainOf(document, lines, name);
  const parsed = mappingFile.safeParse(value);
  const faults = parsed.success
    ? checkMappingFile(parsed.data)
    : parsed.error.issues.flatMap((issue) => faultsOf(issue));
  if (parsed.success && faults.length === 0) return parsed.data;
  const placed = faults.map((fault) => ({ fault, line: lineOf(document, lines, fault) }));
  throw new MappingError(
    name,
    placed
      .toSorted((a, b) => a.line - b.line)
      .map(({ fault, line }) => `${name}:${line}: ${where(fault.path, value)}${fault.says}`),
  );
}

function plainOf(document: Document, lines: LineCounter, name: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    let line = 1;
    visit(document, {
      Alias(_key, node) {
        if (node.resolve(document) === undefined) line = lines.linePos(node.range?.[0] ?? 0).line;
      },
    });
    throw new MappingError(name, [`${name}:${line}: ${aliasFault(error as Error)}`]);
  }
}

/** `fields.email` of the second rule is told as `contact (objects[1]) fields.email`. */
function where(path: Path, root: unknown): string {
  if (path.length === 0) return "";
  const [first, index, ...rest] = path;
  if (first !== "objects" || typeof index !== "number") return `${pathText(path)}: `;
  const rule = (root as { objects?: { object?: unknown }[] } | null)?.objects?.[index];
  const named = [rule?.object].flat().filter((name) => typeof name === "string");
  const object = named.length > 0 ? named.join("/") : `objects[${index}]`;
  // A field's expression may stand alone: then the file has no `from`.
  const shown = rest.at(-1) === "from" ? rest.slice(0, -1) : rest;
  return shown.length === 0 ? `${object}: ` : `${object}, ${pathText(shown)}: `;
}

const pathText = (path: Path): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`,
    "",
  );

function lineOf(document: Document, lines: LineCounter, fault: Fault): number {
  for (let path = [...fault.path]; path.length > 0; path = path.slice(0, -1)) {
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
