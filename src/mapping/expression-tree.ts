/** What a mapping must know of JSONata's syntax trees. */

/** A node of JSONata's syntax tree. */
export interface Node {
  type?: string;
  value?: unknown;
  lhs?: Node;
  rhs?: Node;
  procedure?: Node;
  arguments?: Node[];
  [key: string]: unknown;
}

/** What an expression consists of. */
export interface Survey {
  /** Names of fields that the expression reads, at any depth. */
  readonly names: ReadonlySet<string>;
  /** Variables and functions that the expression reads, without the dollar sign. */
  readonly variables: ReadonlySet<string>;
  /** Variables and functions that the expression itself defines. */
  readonly bound: ReadonlySet<string>;
  readonly operators: ReadonlySet<string>;
  /** Names that stand directly after `$event.`. */
  readonly ofEvent: ReadonlySet<string>;
  readonly readsField: boolean;
  readonly comparesNull: boolean;
  readonly addsText: boolean;
  /** It has a condition, `?:` or `??`: it may do without a field that is missing. */
  readonly chooses: boolean;
}

export function survey(ast: Node): Survey {
  const names = new Set<string>();
  const variables = new Set<string>();
  const bound = new Set<string>();
  const operators = new Set<string>();
  const ofEvent = new Set<string>();
  let readsField = false;
  let comparesNull = false;
  let addsText = false;
  let chooses = false;
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach(visit);
    const { type, value, lhs } = node as Node;
    readsField ||= type === "name" || type === "wildcard" || type === "descendant";
    chooses ||= type === "condition";
    if (type === "name" && typeof value === "string") names.add(value);
    if (type === "string" && typeof value === "string") names.add(value); // may be the name in $lookup(record, "name")
    if (type === "binary" && typeof value === "string") {
      operators.add(value);
      const sides = [lhs, (node as Node).rhs];
      addsText ||= value === "+" && sides.some((side) => side?.type === "string");
      comparesNull ||= /^!?=$/.test(value) && sides.some(isNull);
    }
    if (type === "path") {
      const [first, second] = stepsOf(node as Node);
      const isEvent = first?.type === "variable" && first.value === "event";
      if (isEvent && second?.type === "name") ofEvent.add(String(second.value));
    }
    if (type === "variable" && typeof value === "string") variables.add(value);
    if (type === "bind" && typeof lhs?.value === "string") bound.add(lhs.value);
    if (type === "lambda") {
      for (const argument of (node as Node).arguments ?? []) bound.add(String(argument.value));
    }
    for (const [key, child] of Object.entries(node as Node)) {
      // `@$x` and `#$i` also bind a name; it is a property of the step.
      if ((key === "focus" || key === "index") && typeof child === "string") bound.add(child);
      visit(child);
    }
  };
  visit(ast);
  return {
    names,
    variables,
    bound,
    operators,
    ofEvent,
    readsField,
    comparesNull,
    addsText,
    chooses,
  };
}

const isNull = (node: Node | undefined): boolean => node?.type === "value" && node.value === null;

const stepsOf = (node: Node): readonly Node[] => (node["steps"] as Node[] | undefined) ?? [];

/** Names of the fields that a part of an expression reads. */
export const fieldsIn = (node: Node): string[] => [...survey(node).names];

/** Where a value is in a record: the names of the fields on the way. */
export type FieldPath = readonly string[];

/** The fields of the record that an expression reads, and `$` where it reads the whole record. */
export const recordFieldsIn = (ast: Node): string[] => [
  ...new Set(pathsIn(ast).map(([first = "$"]) => first)),
];

/**
 * What an expression reads of the record; the empty path is all of it. Names after a step that is no part of
 * the record, such as `$event.recordId`, are not among them.
 */
export function pathsIn(ast: Node): FieldPath[] {
  const found: FieldPath[] = [];
  /** @param at where names are looked up; undefined: not in the record. */
  const visit = (node: unknown, at: FieldPath | undefined): void => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach((inner) => visit(inner, at));
    const { type, value, steps: _, ...others } = node as Node;
    let place = at;
    if (type === "path") {
      for (const step of stepsOf(node as Node)) place = follow(step, place);
      if (place !== undefined) found.push(place);
    } else if (at !== undefined && type === "variable" && isWhole(value)) {
      found.push(value === "$" ? [] : at);
    }
    visit(Object.values(others), place);
  };
  const follow = (step: Node, at: FieldPath | undefined): FieldPath | undefined => {
    const { type, value, ...others } = step;
    if (type === "variable") return isWhole(value) ? (value === "$" ? [] : at) : undefined;
    if (type !== "name") {
      const isAny = type === "wildcard" || type === "descendant" || type === "parent";
      if (isAny && at !== undefined) found.push(at);
      visit(step, at);
      return type === "sort" ? at : undefined;
    }
    const place = at && [...at, String(value)];
    // Conditions on the items of a step see these items.
    visit(Object.values(others), place);
    return place;
  };
  visit(ast, []);
  return found;
}

/** `$` is what the step is applied to, `$$` is always the record. */
const isWhole = (variable: unknown): boolean => variable === "$" || variable === "";
