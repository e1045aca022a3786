/** Recognises bodies of webhooks in a previewed file and translates them as HTTP intake does. */
import type { WebhookEvent } from "../crm/connector.ts";
import { CONNECTORS } from "../crm/connectors.ts";
import { WebhookBodyError } from "../crm/webhook-body.ts";

/** @returns undefined when the value is no webhook body of a known CRM. */
export function eventsOfBody(value: unknown): readonly WebhookEvent[] | undefined {
  // Some CRMs send lists: the value may be one item of such a list.
  return eventsOfText(JSON.stringify(value)) ?? eventsOfText(JSON.stringify([value]));
}

/** @param text as it was sent; outbound messages are XML. */
export function eventsOfText(text: string): readonly WebhookEvent[] | undefined {
  const request = {
    // EspoCRM's bodies do not say what they are about, so none is recognised.
    path: "",
    urls: [],
    query: new URLSearchParams(),
    headers: {},
    body: Buffer.from(text),
    receivedAt: Date.now(),
  };
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
