/** Checks the section `webhooks` of a mapping file beyond its structure. */
import { type Mistake, type Path } from "../schema-parts.ts";
import { ExpressionError } from "../expression-errors.ts";
import { compileWebhookExpression } from "./compile.ts";
import { withFormat } from "./debezium.ts";
import { OPERATIONS, type WebhookRule } from "./rule.ts";
import { verifyOf } from "./verify-rule.ts";
import { WEBHOOK_EXPRESSIONS } from "./webhook.ts";

/** Of one mapping file; each has series of its own in the metrics. */
const MAX_WEBHOOKS = 20;

/** @param objects the objects that the mapping has rules for. */
export function checkWebhooks(
  webhooks: Readonly<Record<string, WebhookRule>>,
  objects: readonly string[],
): Mistake[] {
  const mistakes = Object.entries(webhooks).flatMap(([name, rule]) =>
    checkWebhook(name, withFormat(rule, objects), ["webhooks", name], objects),
  );
  if (Object.keys(webhooks).length > MAX_WEBHOOKS) {
    mistakes.push({ path: ["webhooks"], message: `must not be more than ${MAX_WEBHOOKS}` });
  }
  return mistakes;
}

function checkWebhook(
  name: string,
  rule: WebhookRule,
  path: Path,
  objects: readonly string[],
): Mistake[] {
  return [
    ...checkExpressions(rule, path),
    ...checkOperation(rule.operation, [...path, "operation"]),
    ...checkObject(rule.object, path, objects),
    ...checkIds(rule, path),
    ...checkSigned(name, rule.verify, [...path, "verify"]),
  ];
}

function checkExpressions(rule: WebhookRule, path: Path): Mistake[] {
  return WEBHOOK_EXPRESSIONS.flatMap((key) => {
    const value = rule[key];
    const at = typeof value === "object" ? [key, "from"] : [key];
    const text = typeof value === "object" ? value.from : value;
    if (text === undefined) return [];
    try {
      compileWebhookExpression(text, { key: key === "recordId" || key === "eventId" });
      return [];
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      const message = `the expression is not valid: ${error.message}`;
      return [{ path: [...path, ...at], message }];
    }
  });
}

function checkOperation(operation: WebhookRule["operation"], path: Path): Mistake[] {
  if (operation === undefined) return [];
  const { from, value, table, default: fallback } = operation;
  const meant = OPERATIONS.find((one) => one === from);
  if (meant !== undefined) {
    const message = `${meant} is read as the name of a field; for the constant write { value: ${meant} }`;
    return [{ path, message }];
  }
  if ((from === undefined) === (value === undefined)) return [oneOfTwo(path)];
  if (value === undefined || (table === undefined && fallback === undefined)) return [];
  return [{ path, message: "a constant needs neither `table` nor `default`: remove them" }];
}

function checkObject(
  object: WebhookRule["object"],
  path: Path,
  objects: readonly string[],
): Mistake[] {
  const at = [...path, "object"];
  if (object === undefined) {
    if (objects.length === 1) return [];
    const message = `\`object\` is missing: the mapping has rules for ${objects.join(", ")}; write an expression, or a constant such as { value: ${objects[0] ?? "contact"} }`;
    return [{ path, message }];
  }
  const meant = objects.find((name) => name.toLowerCase() === object.from?.toLowerCase());
  if (meant !== undefined) {
    const message = `${meant} is read as the name of a field; for the constant write { value: ${meant} }`;
    return [{ path: at, message }];
  }
  return (object.from === undefined) === (object.value === undefined) ? [oneOfTwo(at)] : [];
}

const oneOfTwo = (path: Path): Mistake => ({
  path,
  message: "needs either `from` (an expression) or `value` (a constant)",
});

/** Ids that would make different events look like one. */
function checkIds({ eventId, recordId = "id" }: WebhookRule, path: Path): Mistake[] {
  if (eventId !== recordId) return [];
  const message =
    "is the record's id: later changes of the record would count as second deliveries of the first; remove it, or give the id of the event";
  return [{ path: [...path, "eventId"], message }];
}

function checkSigned(name: string, given: WebhookRule["verify"], path: Path): Mistake[] {
  const verify = verifyOf(name, given);
  if (verify.by !== "hmac") return [];
  const { signed, timestamp } = verify;
  const at = [...path, "signed"];
  if (signed.split("{body}").length !== 2) {
    return [{ path: at, message: "must contain {body} once: the signature must cover the body" }];
  }
  const hasTime = signed.includes("{timestamp}");
  if (hasTime && timestamp === undefined) {
    const message = "contains {timestamp}: say under `timestamp` which header holds it";
    return [{ path: at, message }];
  }
  if (!hasTime && timestamp !== undefined) {
    const message = "must contain {timestamp}: a time that is not signed proves nothing";
    return [{ path: at, message }];
  }
  return [];
}
