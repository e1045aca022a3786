/** Reads a mapping file; every fault is told with its line, its field and what to do. */
import { LineCounter, parseDocument, type Document } from "yaml";
import type { z } from "zod";
import { checkMappingFile } from "./check-mapping-file.ts";
import { FIELD_NAMES } from "./fields.ts";
import { KEYS, mappingFile, type MappingFile } from "./mapping-file.ts";
import { MappingError } from "./mapping.ts";
import { nearest } from "./nearest.ts";

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
  if (document.errors.length > 0) {
    // The first is the slip; the others are where the parser stumbled after it.
    const [first] = document.errors;
    const line = lines.linePos(first?.pos[0] ?? 0).line;
    throw new MappingError(name, [
      `${name}:${line}: ${yamlFault(first?.message ?? "", first?.code ?? "")}`,
    ]);
  }
  const value: unknown = document.toJS({ maxAliasCount: 100 });
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

function yamlFault(message: string, code: string): string {
  const says = message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? message;
  return code === "UNEXPECTED_TOKEN" ||
    code === "BAD_SCALAR_START" ||
    code === "MULTILINE_IMPLICIT_KEY"
    ? `${says} (an expression that begins with a quote, or has ": ", " #" or, within { }, a bracket or a comma in it, must be put in single quotes as a whole)`
    : says;
}

function faultsOf(issue: z.core.$ZodIssue, base: Path = []): Fault[] {
  const path = [...base, ...(issue.path as (string | number)[])];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({ path: [...path, key], says: unknownKey(path, key) }));
    case "invalid_union": {
      // A field or a table may be short or long: what was begun as long is told as long.
      const long = issue.errors.find((errors) => errors.every(({ path }) => path.length > 0));
      const deepest =
        long ?? issue.errors.find((errors) => errors[0]?.code === "unrecognized_keys");
      if (deepest !== undefined) return deepest.flatMap((inner) => faultsOf(inner, path));
      return [{ path, says: "must be a text (an expression) or a block with from: or value:" }];
    }
    case "invalid_value":
      return [{ path, says: `must be one of ${issue.values.map(String).join(", ")}` }];
    case "invalid_type":
      return [
        {
          path,
          says:
            issue.input === undefined && issue.message.includes("undefined")
              ? "is missing"
              : `must be ${issue.expected === "object" || issue.expected === "record" ? "a block of keys" : `a ${issue.expected}`}`,
        },
      ];
    case "too_small":
      return [{ path, says: "must not be empty" }];
    case "too_big":
    case "invalid_format":
    case "not_multiple_of":
    case "invalid_key":
    case "invalid_element":
    case "custom":
      return [{ path, says: issue.message }];
  }
}

function unknownKey(parent: Path, key: string): string {
  const isField = parent.at(-1) === "fields";
  if (isField && key === "crmCode") return "stands beside `fields`, not in it";
  const near = nearest(key, isField ? FIELD_NAMES : KEYS);
  const says = isField ? "the service has no field of this name" : "is not known here";
  return near === undefined ? says : `${says}; did you mean ${near}?`;
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
