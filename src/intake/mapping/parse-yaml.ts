/**
 * Parses the YAML of a mapping file. A line that cannot be read is reported, and corrected in a copy,
 * so that the other lines are checked as well.
 */
import {
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type ParsedNode,
  type YAMLError,
} from "yaml";
import {
  aliasMistake,
  COLON_MISTAKE,
  INDENT_MISTAKE,
  TAB_MISTAKE,
  yamlMistake,
} from "./mapping-mistakes.ts";

/** What is wrong with one line. */
export interface LineFault {
  readonly line: number;
  readonly message: string;
}

export interface ParsedYaml {
  readonly document: Document;
  /** The lines of the copy are those of the file. */
  readonly lines: LineCounter;
  readonly faults: readonly LineFault[];
  /** Undefined when a fault could not be corrected: what follows it is then not known. */
  readonly value: unknown;
}

/** So many faults are reported, at most: further ones are mostly consequences of these. */
const MAX_FAULTS = 10;

/**
 * Each correction is tried by parsing the whole file, which takes long if the file is large, or so
 * full of errors that it is no mapping. Such a file is read up to its first fault.
 */
const MAX_CORRECTED_CHARACTERS = 32_768;
const MAX_CORRECTED_ERRORS = 500;
const MAX_EARLIER_SUSPECTS = 5;

/** Aliases may repeat each other, so that a small file becomes a huge value. */
const MAX_ALIASES = 100;

export function parseYaml(text: string): ParsedYaml {
  const faults: LineFault[] = [];
  for (let copy = text; ;) {
    const attempt = attemptOf(copy);
    const { document, lines, fault } = attempt;
    if (fault === undefined) {
      const found = [...faults, ...attempt.duplicates];
      try {
        const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
        return { document, lines, faults: found, value };
      } catch (error) {
        const tooMany = { line: 1, message: (error as Error).message };
        return { document, lines, faults: [...found, tooMany], value: undefined };
      }
    }
    const isHopeless =
      faults.length >= MAX_FAULTS ||
      copy.length > MAX_CORRECTED_CHARACTERS ||
      document.errors.length > MAX_CORRECTED_ERRORS;
    const corrected = isHopeless ? undefined : correct(copy, fault);
    faults.push(corrected?.fault ?? fault);
    if (corrected === undefined) return { document, lines, faults, value: undefined };
    copy = corrected.text;
  }
}

interface Attempt {
  readonly document: Document;
  readonly lines: LineCounter;
  /** The first one: those after it are mostly its consequences. */
  readonly fault: LineFault | undefined;
  /** Keys that occur twice; everything else is understood. */
  readonly duplicates: readonly LineFault[];
}

function attemptOf(text: string): Attempt {
  const lines = new LineCounter();
  const uniqueKeys = (a: ParsedNode, b: ParsedNode) => keyOf(a) === keyOf(b);
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys });
  visit(document, {
    Pair(_key, { key }) {
      if (isScalar(key)) key.value = keyOf(key);
    },
  });
  const placed = (error: YAMLError): LineFault => ({
    line: lines.linePos(error.pos[0]).line,
    message: yamlMistake(error),
  });
  const isDuplicate = ({ code }: YAMLError) => code === "DUPLICATE_KEY";
  // A warning, such as an unknown tag, is a mistake here as well.
  const first = [...document.errors, ...document.warnings].find((error) => !isDuplicate(error));
  const fault = first === undefined ? unknownAlias(document, lines) : placed(first);
  return { document, lines, fault, duplicates: document.errors.filter(isDuplicate).map(placed) };
}

/** Keys are texts as the file writes them: 01 is not 1, and 1e3 not 1000. */
function keyOf(node: unknown): unknown {
  if (!isScalar(node)) return node;
  return typeof node.value === "string" ? node.value : (node.source ?? "");
}

/** Finds `*name` without an anchor of that name. */
function unknownAlias(document: Document, lines: LineCounter): LineFault | undefined {
  let fault: LineFault | undefined;
  visit(document, {
    Alias(_key, node) {
      if (node.resolve(document) !== undefined) return undefined;
      const { line } = lines.linePos(node.range?.[0] ?? 0);
      fault = { line, message: aliasMistake(node.source) };
      return visit.BREAK;
    },
  });
  return fault;
}

interface Correction {
  /** The copy without the fault. */
  readonly text: string;
  /** The fault, at the line that is its cause. */
  readonly fault: LineFault;
  /** The line of the next fault. */
  readonly next: number;
}

function correct(text: string, fault: LineFault): Correction | undefined {
  const lines = text.split("\n");
  let best: Correction | undefined;
  for (const line of suspects(lines, fault)) {
    for (const { text: replacement, message = fault.message } of replacementsOf(lines, line)) {
      const corrected = lines.with(line - 1, replacement).join("\n");
      const next = attemptOf(corrected).fault?.line ?? Number.POSITIVE_INFINITY;
      if (next > Math.max(fault.line, line, best?.next ?? 0)) {
        best = { text: corrected, fault: { line, message }, next };
      }
    }
    if (best?.next === Number.POSITIVE_INFINITY) break;
  }
  return best;
}

/** Lines that may be the cause of a fault: a quote or a bracket that is not closed is found late. */
function* suspects(lines: readonly string[], { line }: LineFault): Generator<number> {
  for (const near of [line, line - 1, line + 1]) {
    if (lines[near - 1] !== undefined) yield near;
  }
  let found = 0;
  for (let earlier = line - 2; earlier > 0 && found < MAX_EARLIER_SUSPECTS; earlier -= 1) {
    const text = lines[earlier - 1] ?? "";
    if (!["'", '"'].some((quote) => text.split(quote).length % 2 === 0)) continue;
    yield earlier;
    found += 1;
  }
}

/** A harmless expression: the name of a field. */
const HARMLESS = "x";

/** What may stand in the place of a line, and what is wrong with it if that helps. */
interface Replacement {
  readonly text: string;
  readonly message?: string;
}

function replacementsOf(lines: readonly string[], line: number): Replacement[] {
  const text = lines[line - 1] ?? "";
  const above = lines.slice(0, line - 1).findLast((other) => /^\s*[^\s#]/.test(other)) ?? "";
  const indent = /^ */.exec(above)?.[0] ?? "";
  const harmless = (whole: string) =>
    whole.replace(/^(\s*(?:- )?)([\w-]+)(?:\s*:|\s|$).*$/, `$1$2: ${HARMLESS}`);
  const indented = indent + text.trimStart();
  const isIndentedByTab = /^ *\t/.test(text);
  const replacements: Replacement[] = [
    { text: indented, message: isIndentedByTab ? TAB_MISTAKE : INDENT_MISTAKE },
    { text: harmless(text), ...(!/:\s/.test(text) && { message: COLON_MISTAKE }) },
    { text: harmless(indented) },
    { text: "" },
  ];
  return replacements.filter((one) => one.text !== text);
}
