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
  const nodes = nodesIn(ast);
  const ofType = (...types: string[]) => nodes.filter(({ type = "" }) => types.includes(type));
  const textsOf = (...types: string[]) =>
    new Set(ofType(...types).flatMap(({ value }) => (typeof value === "string" ? [value] : [])));
  const binary = ofType("binary").map(({ value, lhs, rhs }) => ({ value, sides: [lhs, rhs] }));
  return {
    // A text may be the name in $lookup(record, "name").
    names: textsOf("name", "string"),
    variables: textsOf("variable"),
    bound: new Set(nodes.flatMap(boundBy)),
    operators: textsOf("binary"),
    ofEvent: new Set(
      ofType("path").flatMap((path) => {
        const [first, second] = stepsOf(path);
        const isEvent = first?.type === "variable" && first.value === "event";
        return isEvent && second?.type === "name" ? [String(second.value)] : [];
      }),
    ),
    readsField: ofType("name", "wildcard", "descendant").length > 0,
    comparesNull: binary.some(
      ({ value, sides }) => /^!?=$/.test(String(value)) && sides.some(isNull),
    ),
    addsText: binary.some(
      ({ value, sides }) => value === "+" && sides.some((side) => side?.type === "string"),
    ),
    chooses: ofType("condition").length > 0,
  };
}

/** Whether nodes stand in one another more often than this. Takes no stack. */
export function isDeeperThan(tree: Node, levels: number): boolean {
  let level: unknown[] = [tree];
  for (let depth = 0; depth <= levels && level.length > 0; depth += 1) {
    level = level
      .flatMap((node) => Object.values(node as object) as unknown[])
      .flat()
      .filter((part) => typeof part === "object" && part !== null);
  }
  return level.length > 0;
}

/** The nodes of a tree, each before its parts. */
export function nodesIn(tree: unknown): Node[] {
  if (typeof tree !== "object" || tree === null) return [];
  const parts = Object.values(tree).flatMap(nodesIn);
  return Array.isArray(tree) ? parts : [tree as Node, ...parts];
}

/** Names that a node defines; `@$x` and `#$i` are properties of their step. */
function boundBy({ type, lhs, arguments: given = [], focus, index }: Node): string[] {
  const names = [
    focus,
    index,
    type === "bind" && lhs?.value,
    ...(type === "lambda" ? given.map(({ value }) => value) : []),
  ];
  return names.filter((name) => typeof name === "string");
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
