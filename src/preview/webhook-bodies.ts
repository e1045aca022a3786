/** Bodies of webhooks among what is previewed: told by what is in them, translated as at the door. */
import { CONNECTORS } from "../http/webhooks.ts";
import { WebhookBodyError, type WebhookEvent } from "../crm/connector.ts";

/** @returns undefined when no CRM's webhook sends such a thing. */
export function eventsOfBody(value: unknown): readonly WebhookEvent[] | undefined {
  // Some send lists, of which this may be one item.
  return eventsOfText(JSON.stringify(value)) ?? eventsOfText(JSON.stringify([value]));
}

/** @param text as it was sent; outbound messages are XML. */
export function eventsOfText(text: string): readonly WebhookEvent[] | undefined {
  const request = {
    // EspoCRM's bodies do not say what they are, so none is taken for one.
    path: "",
    urls: [],
    query: new URLSearchParams(),
    headers: {},
    body: Buffer.from(text),
    receivedAt: Date.now(),
  };
  for (const webhook of CONNECTORS) {
    try {
      // As much of the record as the event brings: nothing is fetched here.
      return webhook.toEvents(request, false).events;
    } catch (error) {
      if (!(error instanceof WebhookBodyError)) throw error;
    }
  }
  return undefined;
}
