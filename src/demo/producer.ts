/**
 * Sends what happens at the CRM when it happens: over HTTP, one by one and in batches, and as
 * plain jobs on the BullMQ queue, in the way of every foreign producer.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Inbox } from "../event/inbox.ts";
import type { Delivery, Route } from "./planner.ts";

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
  /** When the hour begins, ms since the epoch. */
  readonly startAt: number;
  readonly inbox: Inbox;
  /** Where the daemon takes events, and the token for it. */
  readonly eventsUrl: string;
  readonly token: string;
  readonly signal: AbortSignal;
}

export class Producer {
  readonly #options: ProducerOptions;
  /** Sent over HTTP one after another, so that an event never overtakes an earlier one there. */
  readonly #outbox: { readonly route: "http" | "batch"; readonly events: readonly unknown[] }[] =
    [];
  #delivered = 0;

  constructor(options: ProducerOptions) {
    this.#options = options;
  }

  /** Deliveries that crmsync, or its queue, has taken. */
  get delivered(): number {
    return this.#delivered;
  }

  /** Resolves when all is delivered; waits for as long as the daemon is away. */
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

  /** Empties the outbox; ends when it is told that nothing more comes and all is sent. */
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

  /** @returns false when it has to be tried again: nobody can know whether it was taken. */
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
        throw new EventsRefused(`POST /events answered ${response.status}: ${text}`);
      }
    } catch (error) {
      if (error instanceof EventsRefused) throw error;
      signal.throwIfAborted();
    }
    return false;
  }
}

/** The producer sent something that will never be taken: a defect of the demo or of crmsync. */
class EventsRefused extends Error {
  override readonly name = "EventsRefused";
}
