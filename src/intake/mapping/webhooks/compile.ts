/** Compiles the webhooks of a mapping file: their expressions and tables, with every default. */
import { checkedExpression } from "../compile-expression.ts";
import { finderOf, type Finder } from "../compare-texts.ts";
import { allObjectsOf, type MappingFile } from "../mapping-file.ts";
import { withFormat } from "./debezium.ts";
import type { Operation, WebhookRule } from "./rule.ts";
import { verifyOf } from "./verify-rule.ts";
import type { WebhookAbout } from "./webhook.ts";

/** An expression that is evaluated on one event of a body. */
export type WebhookExpression = Pick<ReturnType<typeof checkedExpression>, "text" | "evaluate">;

/**
 * @param options.key the expression makes an id: it fails if a part of it is missing.
 * @throws ExpressionError that says what is wrong and where.
 */
export const compileWebhookExpression = (
  text: string,
  options: { readonly key?: boolean } = {},
): WebhookExpression => checkedExpression(text, ["body", "headers", "query"], options);

export interface CompiledWebhook {
  readonly about: WebhookAbout;
  readonly operation: {
    /** Undefined: every event has the operation `otherwise`. */
    readonly from: WebhookExpression | undefined;
    /** The tool's word → the operation; null: the event is left out. */
    readonly table: Finder<Operation | null>;
    readonly otherwise: Operation | undefined;
  };
  readonly object: WebhookExpression | string;
  readonly recordId: WebhookExpression;
  readonly time: WebhookExpression | undefined;
  /** Of times without an offset; undefined: UTC. */
  readonly zone: string | undefined;
  readonly eventId: WebhookExpression | undefined;
  /** Undefined: the event itself, or nothing where it is fetched. */
  readonly record: WebhookExpression | undefined;
}

export function compileWebhooks(file: MappingFile): ReadonlyMap<string, CompiledWebhook> {
  const objects = allObjectsOf(file);
  return new Map(
    Object.entries(file.webhooks ?? {}).map(([name, rule]) => [
      name,
      compileWebhook(name, withFormat(rule, objects), objects[0] ?? ""),
    ]),
  );
}

/** @param onlyObject the mapping's object, where it has one: checked before. */
function compileWebhook(name: string, rule: WebhookRule, onlyObject: string): CompiledWebhook {
  const compile = (text: string | undefined, options = {}) =>
    text === undefined ? undefined : compileWebhookExpression(text, options);
  const events = rule.events?.split(".") ?? [];
  const { fetch, format, whole = false } = rule;
  const verify = verifyOf(name, rule.verify);
  return {
    about: { name, verify, events, fetch, whole, format },
    operation: compileOperation(rule.operation),
    object: compile(rule.object?.from) ?? rule.object?.value ?? onlyObject,
    recordId: compileWebhookExpression(rule.recordId ?? "id", { key: true }),
    time: compile(rule.time?.from),
    zone: rule.time?.zone,
    eventId: compile(rule.eventId, { key: true }),
    record: compile(rule.record),
  };
}

function compileOperation(
  rule: WebhookRule["operation"] = { value: "updated" },
): CompiledWebhook["operation"] {
  return {
    from: rule.from === undefined ? undefined : compileWebhookExpression(rule.from),
    table: finderOf<Operation | null>(Object.entries(rule.table ?? {})),
    otherwise: rule.value ?? rule.default,
  };
}
