import type { Client, Crm, ClientEvent } from "./crm.ts";
import type { Random } from "./random.ts";

/** How an event is sent: alone over HTTP, in a batch over HTTP, as a job of the BullMQ queue. */
export const ROUTES = ["http", "batch", "queue"] as const;
export type Route = (typeof ROUTES)[number];

export interface Delivery {
  /** From the start of the hour, ms. */
  readonly atMs: number;
  readonly route: Route;
  readonly event: ClientEvent;
}

/** Share of the events that are sent a second time. */
const SENT_TWICE = 0.05;

/** Runs its scheduled actions in the order of time; an action may schedule later ones. */
export class Timetable {
  readonly deliveries: Delivery[] = [];
  readonly random: Random;
  readonly crm: Crm;
  readonly #lengthMs: number;
  #agenda: { at: number; act: (at: number) => void }[] = [];

  constructor(random: Random, crm: Crm, lengthMs: number) {
    this.random = random;
    this.crm = crm;
    this.#lengthMs = lengthMs;
  }

  /** @param share when, as a share of the hour; `act` gets it in ms */
  at(share: number, act: (atMs: number) => void): void {
    this.#agenda.push({ at: Math.round(share * this.#lengthMs), act });
  }

  /** Schedules `act` `count` times, at random between two shares of the hour. */
  spread(count: number, from: number, to: number, act: (atMs: number) => void): void {
    for (let i = 0; i < Math.round(count); i += 1) {
      this.at(from + this.random.next() * (to - from), act);
    }
  }

  after(atMs: number, share: number, act: (atMs: number) => void): void {
    this.at(atMs / this.#lengthMs + share, act);
  }

  /** As `spread`; each time for a random valid client, if there is one. */
  spreadOverClients(
    count: number,
    from: number,
    to: number,
    act: (client: Client, atMs: number) => void,
  ): void {
    this.spread(count, from, to, (atMs) => {
      const clients = this.crm.validClients();
      if (clients.length > 0) act(this.random.pick(clients), atMs);
    });
  }

  /** Sends an event, `late` (a share of the hour) after it happened; some are sent a second time. */
  send(event: ClientEvent, atMs: number, options: { route?: Route; late?: number } = {}): void {
    const route = (): Route => options.route ?? this.random.pick(ROUTES);
    const sentAt = atMs + Math.round((options.late ?? 0) * this.#lengthMs);
    this.deliveries.push({ atMs: sentAt, route: route(), event });
    if (!this.random.chance(SENT_TWICE)) return;
    const again = sentAt + Math.round(this.random.next() * 0.03 * this.#lengthMs);
    this.deliveries.push({ atMs: again, route: route(), event });
  }

  run(): void {
    while (this.#agenda.length > 0) {
      // Equal times keep their order, so that the hour is the same for the same seed.
      this.#agenda.sort((a, b) => a.at - b.at);
      const next = this.#agenda.shift();
      next?.act(next.at);
    }
  }
}
