/**
 * Sends the events of the CRM at their times: over HTTP, one by one and in batches, and as plain
 * jobs of the BullMQ queue, like every other sender.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Inbox } from "../event/inbox.ts";
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
  readonly deliveries: readonly Delivery[];
  /** Start of the hour, ms since the epoch. */
  readonly startAt: number;
  readonly inbox: Inbox;
  /** The endpoint `/events` of the daemon, and its token. */
  readonly eventsUrl: string;
  readonly token: string;
  readonly signal: AbortSignal;
}

export class Producer {
  readonly #options: ProducerOptions;
  /** Sent over HTTP one after another, so that no event overtakes an earlier one. */
  readonly #outbox: { readonly route: "http" | "batch"; readonly events: readonly unknown[] }[] =
    [];
  #delivered = 0;

  constructor(options: ProducerOptions) {
    this.#options = options;
  }

  /** Deliveries that crmsync or its queue has accepted. */
  get delivered(): number {
    return this.#delivered;
  }

  /** Resolves when all is delivered; waits while the daemon is down. */
  async run(): Promise<void> {
    const finished = new AbortController();
    const posting = this.#post(finished.signal);
    try {
      await Promise.race([this.#follow(), posting]);
    } finally {
      finished.abort();
    }
    await posting;
  }

  async #follow(): Promise<void> {
    const { deliveries, startAt, signal } = this.#options;
    for (let next = 0; next < deliveries.length;) {
      const due: Delivery[] = [];
      const now = Date.now() - startAt;
      for (; next < deliveries.length; next += 1) {
        const delivery = deliveries[next];
        if (delivery === undefined || delivery.atMs > now) break;
        due.push(delivery);
      }
      await this.#dispatch(due);
      await delay(TICK_MS, undefined, { signal });
    }
  }

  async #dispatch(due: readonly Delivery[]): Promise<void> {
    const of = (route: Route) => due.filter((d) => d.route === route).map(({ event }) => event);
    for (const event of of("http")) this.#outbox.push({ route: "http", events: [event] });
    const batch = of("batch");
    for (let start = 0; start < batch.length; start += BATCH_MAX) {
      this.#outbox.push({ route: "batch", events: batch.slice(start, start + BATCH_MAX) });
    }
    const jobs = of("queue");
    await Promise.all(jobs.map(async (event) => this.#options.inbox.queue.add("change", event)));
    this.#delivered += jobs.length;
  }

  /** Sends the outbox; returns when it is empty and `finished` is aborted. */
  async #post(finished: AbortSignal): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const next = this.#outbox[0];
      if (next === undefined) {
        if (finished.aborted) return;
        await delay(TICK_MS);
      } else if (await this.#postOne(next.route, next.events)) {
        this.#outbox.shift();
        this.#delivered += next.events.length;
      } else {
        await delay(RETRY_AFTER_MS);
      }
    }
  }

  /** @returns false if it must be sent again: it may or may not have been accepted */
  async #postOne(route: "http" | "batch", events: readonly unknown[]): Promise<boolean> {
    const { eventsUrl, token, signal } = this.#options;
    let response: Response;
    try {
      response = await fetch(eventsUrl, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": CONTENT_TYPE[route] },
        body: JSON.stringify(route === "http" ? events[0] : events),
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
      });
      const text = await response.text();
      if (response.status === 202) return true;
      if (response.status < 500 && response.status !== 429) {
        throw new EventsRejected(`POST /events answered ${response.status}: ${text}`);
      }
    } catch (error) {
      if (error instanceof EventsRejected) throw error;
      signal.throwIfAborted();
    }
    return false;
  }
}

/** The daemon rejected events that it must accept: a defect of the demo or of crmsync. */
class EventsRejected extends Error {
  override readonly name = "EventsRejected";
}
