/** Compiles an expression of a webhook. A body may have thousands of events, and most are plain paths. */
import { checkedExpression } from "../compile-expression.ts";

/** An expression that is evaluated on one event of a body. */
export interface WebhookExpression {
  readonly text: string;
  /** Variables that it reads, without the dollar sign. */
  readonly variables: ReadonlySet<string>;
  /** Rejects when the expression fails on this event. */
  evaluate(event: unknown, variables: Readonly<Record<string, unknown>>): Promise<unknown>;
}

const VARIABLES = ["body", "headers", "query"];

/** Such as `id`, `contact.id` or `$body.type`. */
const PLAIN_PATH = /^(?:\$(body|headers|query)\.)?([a-z_]\w*(?:\.[a-z_]\w*)*)$/i;

/** Names that JSONata reads as something else. */
const RESERVED = /^(?:and|or|in|true|false|null|function)$/;

/**
 * @param options.key the expression makes an id: it fails if a part of it is missing.
 * @throws ExpressionError that says what is wrong and where.
 */
export function compileWebhookExpression(
  text: string,
  options: { readonly key?: boolean } = {},
): WebhookExpression {
  const { variables, evaluate } = checkedExpression(text, VARIABLES, options);
  const [, variable, path] = PLAIN_PATH.exec(text) ?? [];
  const names = path?.split(".") ?? [];
  if (names.length === 0 || names.some((name) => RESERVED.test(name))) {
    return { text, variables, evaluate };
  }
  return {
    text,
    variables,
    async evaluate(event, given) {
      const root = variable === undefined ? event : given[variable];
      const found = follow(root, names);
      return found === BY_JSONATA ? evaluate(event, given) : found;
    },
  };
}

const BY_JSONATA = Symbol("by JSONata");

/** What JSONata finds, in a tenth of the time. Lists have rules of their own: those are left to it. */
function follow(root: unknown, names: readonly string[]): unknown {
  let value = root;
  for (const name of names) {
    if (Array.isArray(value)) return BY_JSONATA;
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}
