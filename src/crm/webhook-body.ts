/** Reads the body of a webhook, or says what is wrong with it. */
import { parseExactly } from "../event/exact-json.ts";
import type { WebhookRequest } from "./connector.ts";
import { textOf } from "./json-value.ts";

/** The body is not what the CRM sends. The message says why and quotes nothing of the body. */
export class WebhookBodyError extends Error {}

/** The body cannot be translated now; the sender should post it again. */
export class WebhookUnavailable extends Error {}

/** @throws WebhookBodyError when the body is not JSON. */
export function jsonOf(request: WebhookRequest): unknown {
  try {
    return parseExactly(request.body.toString("utf8"));
  } catch {
    throw new WebhookBodyError("the body is not valid JSON");
  }
}

/** @throws WebhookBodyError when the value is empty. */
export function required(value: unknown, name: string): string {
  const text = textOf(value);
  if (text === "") throw new WebhookBodyError(`${name} is missing`);
  return text;
}
