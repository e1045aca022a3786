/** Recognises bodies of webhooks in a previewed file and translates them as HTTP intake does. */
import type { WebhookEvent } from "../../intake/crm/connector.ts";
import { CONNECTORS } from "../../intake/crm/connectors.ts";
import { WebhookBodyError } from "../../intake/crm/webhook-body.ts";

/** A request to a webhook whose address is not known. */
export const requestWith = (
  body: Buffer,
  query = new URLSearchParams(),
  headers: Readonly<Record<string, string>> = {},
) => ({ path: "", urls: [], query, headers, body, receivedAt: Date.now() });

/** @returns undefined when the value is no webhook body of a known CRM. */
export function eventsOfBody(value: unknown): readonly WebhookEvent[] | undefined {
  // Some CRMs send lists: the value may be one item of such a list.
  return eventsOfText(JSON.stringify(value)) ?? eventsOfText(JSON.stringify([value]));
}

/** @param text as it was sent; outbound messages are XML. */
export const eventsOfText = (text: string): readonly WebhookEvent[] | undefined =>
  bodyOf(text)?.events;

/**
 * The CRM whose webhooks send such a body.
 * @param text of a file: one body, an entry of it, or several bodies, as a list or on a line each.
 */
export function senderOf(text: string): string | undefined {
  const [line = ""] = text.trim().split("\n", 1);
  const [item] = listIn(text);
  const bodies = [text, line, JSON.stringify(item) ?? ""].flatMap((body) => [body, `[${body}]`]);
  for (const body of bodies) {
    const { events = [], sender } = bodyOf(body) ?? {};
    // Other tools use the words of Twenty and Pipedrive, too, but do not name an account of these.
    if (events.some(({ source }) => !source.endsWith("/"))) return sender;
  }
  return undefined;
}

function listIn(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

function bodyOf(text: string) {
  // EspoCRM's bodies do not say what they are about, so none is recognised.
  const request = requestWith(Buffer.from(text));
  for (const connector of CONNECTORS) {
    try {
      // Nothing is fetched here: the event has only what its body brings.
      const { each, events } = connector.toEvents(request, false);
      if (each === undefined || each.problems.length === 0)
        return { sender: connector.name, events };
    } catch (error) {
      if (!(error instanceof WebhookBodyError)) throw error;
    }
  }
  return undefined;
}
