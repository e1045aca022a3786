/** Reads a mapping file. Each mistake is reported with its line, its field and what to do. */
import { LineCounter, parseDocument, visit, type Document } from "yaml";
import { checkMappingFile } from "./check-mapping-file.ts";
import { mappingFile, type MappingFile } from "./mapping-file.ts";
import { aliasMistake, mistakesOf, yamlMistake } from "./mapping-mistakes.ts";
import { MappingError } from "./mapping.ts";
import type { Mistake, Path } from "./mistake.ts";

/** Far larger than any real mapping. */
const MAX_BYTES = 1024 * 1024;

/**
 * @param name of the file, for the messages.
 * @throws MappingError with all mistakes of the file.
 */
export function readMappingFile(text: string, name: string): MappingFile {
  if (text.length > MAX_BYTES) throw new MappingError(name, ["it is larger than 1 MiB"]);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  // Only the first is reported: the others are mostly its consequences. A warning, such as an
  // unknown tag, is a mistake here as well.
  const [first] = [...document.errors, ...document.warnings];
  if (first !== undefined) {
    const { line } = lines.linePos(first.pos[0]);
    throw new MappingError(name, [`${name}:${line}: ${yamlMistake(first)}`]);
  }
  const value = plainOf(document, lines, name);
  const parsed = mappingFile.safeParse(value);
  const mistakes = parsed.success
    ? checkMappingFile(parsed.data)
    : parsed.error.issues.flatMap((issue) => mistakesOf(issue));
  if (parsed.success && mistakes.length === 0) return parsed.data;
  const placed = mistakes.map((mistake) => ({ mistake, line: lineOf(document, lines, mistake) }));
  throw new MappingError(
    name,
    placed
      .toSorted((a, b) => a.line - b.line)
      .map(
        ({ mistake, line }) => `${name}:${line}: ${where(mistake.path, value)}${mistake.message}`,
      ),
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
    throw new MappingError(name, [`${name}:${line}: ${aliasMistake(error as Error)}`]);
  }
}

/** The place for a message: `contact, fields.email: ` for a field of the rule of contacts. */
function where(path: Path, root: unknown): string {
  if (path.length === 0) return "";
  const [first, index, ...rest] = path;
  if (first !== "objects" || typeof index !== "number") return `${pathText(path)}: `;
  const rule = (root as { objects?: { object?: unknown }[] } | null)?.objects?.[index];
  const named = [rule?.object].flat().filter((name) => typeof name === "string");
  const object = named.length > 0 ? named.join("/") : `objects[${index}]`;
  // A field may be an expression alone; then the file has no key `from`.
  const shown = rest.at(-1) === "from" ? rest.slice(0, -1) : rest;
  return shown.length === 0 ? `${object}: ` : `${object}, ${pathText(shown)}: `;
}

const pathText = (path: Path): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`,
    "",
  );

function lineOf(document: Document, lines: LineCounter, mistake: Mistake): number {
  for (let path = [...mistake.path]; path.length > 0; path = path.slice(0, -1)) {
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
