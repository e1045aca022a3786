/** Recognises bodies of webhooks in a previewed file and translates them as HTTP intake does. */
import type { WebhookEvent } from "../crm/connector.ts";
import { CONNECTORS } from "../crm/connectors.ts";
import { WebhookBodyError } from "../crm/webhook-body.ts";

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
export function eventsOfText(text: string): readonly WebhookEvent[] | undefined {
  // EspoCRM's bodies do not say what they are about, so none is recognised.
  const request = requestWith(Buffer.from(text));
  for (const connector of CONNECTORS) {
    try {
      // Nothing is fetched here: the event has only what its body brings.
      const { each, events } = connector.toEvents(request, false);
      if (each === undefined || each.problems.length === 0) return events;
    } catch (error) {
      if (!(error instanceof WebhookBodyError)) throw error;
    }
  }
  return undefined;
}
