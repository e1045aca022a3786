/**
 * Sends the events of the CRM at their times: over HTTP, one by one and in batches, and as plain
 * jobs of the BullMQ queue, like every other sender.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Inbox } from "../core/event/inbox.ts";
import type { Delivery, Route } from "./timetable.ts";

const TICK_MS = 40;
const RETRY_AFTER_MS = 250;
const REQUEST_TIMEOUT_MS = 5000;
const BATCH_MAX = 50;

const CONTENT_TYPE = {
  http: "application/cloudevents+json",
  batch: "application/cloudevents-batch+json",
};

export interface ProducerOptions {
  /** In the order of their times. */
  readonly deliveries: readonly Delivery[];
  /** Start of the hour, ms since the epoch. */
  readonly startAt: number;
  readonly inbox: Inbox;
  /** The endpoint `/events` of the daemon, and its token. */
  readonly eventsUrl: string;
  readonly token: string;
  readonly signal: AbortSignal;
  /** Called when crmsync or its queue has accepted so many more. */
  readonly onDelivered: (events: number) => void;
}

/** Resolves when all is delivered; waits while the daemon is down, so that no event overtakes an earlier one. */
export async function produce(options: ProducerOptions): Promise<void> {
  const { deliveries, inbox, onDelivered, signal, startAt } = options;
  for (let next = 0; next < deliveries.length;) {
    const now = Date.now() - startAt;
    const end = deliveries.findIndex(({ atMs }, index) => index >= next && atMs > now);
    const due = deliveries.slice(next, end === -1 ? deliveries.length : end);
    next += due.length;
    const of = (route: Route) => due.filter((d) => d.route === route).map(({ event }) => event);
    const jobs = of("queue");
    await Promise.all(jobs.map((event) => inbox.queue.add("change", event)));
    onDelivered(jobs.length);
    for (const event of of("http")) await post("http", [event], options);
    const batch = of("batch");
    for (let start = 0; start < batch.length; start += BATCH_MAX) {
      await post("batch", batch.slice(start, start + BATCH_MAX), options);
    }
    await delay(TICK_MS, undefined, { signal });
  }
}

/** Sends them until they are accepted. */
async function post(
  route: "http" | "batch",
  events: readonly unknown[],
  { eventsUrl, onDelivered, signal, token }: ProducerOptions,
): Promise<void> {
  for (;;) {
    const { status, text } = await fetch(eventsUrl, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": CONTENT_TYPE[route] },
      body: JSON.stringify(route === "http" ? events[0] : events),
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
    })
      .then(async (response) => ({ status: response.status, text: await response.text() }))
      .catch(() => ({ status: 503, text: "no answer" }));
    if (status === 202) return onDelivered(events.length);
    if (status < 500 && status !== 429) {
      // A defect of the demo or of crmsync.
      throw new Error(`POST /events answered ${status}: ${text}`);
    }
    await delay(RETRY_AFTER_MS, undefined, { signal });
  }
}
