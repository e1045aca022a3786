import type { Client, Crm, Envelope } from "./crm.ts";
import type { Random } from "./random.ts";

/** The ways in: one event over HTTP, several over HTTP, a job on the BullMQ queue. */
export const ROUTES = ["http", "batch", "queue"] as const;
export type Route = (typeof ROUTES)[number];

export interface Delivery {
  /** From the start of the hour. */
  readonly atMs: number;
  readonly route: Route;
  readonly event: Envelope;
}

/** Share of the events that are sent a second time. */
const SENT_TWICE = 0.05;

/** Runs what was put on it in the order of time; what runs may put on more for later. */
export class Planner {
  readonly deliveries: Delivery[] = [];
  readonly #random: Random;
  readonly #crm: Crm;
  readonly #lengthMs: number;
  #agenda: { at: number; act: (at: number) => void }[] = [];

  constructor(random: Random, crm: Crm, lengthMs: number) {
    this.#random = random;
    this.#crm = crm;
    this.#lengthMs = lengthMs;
  }

  /** @param share when, as a share of the hour; `act` is told it in ms. */
  at(share: number, act: (atMs: number) => void): void {
    this.#agenda.push({ at: Math.round(share * this.#lengthMs), act });
  }

  /** So many times at moments from share to share. */
  spread(count: number, from: number, to: number, act: (atMs: number) => void): void {
    for (let i = 0; i < Math.round(count); i += 1) {
      this.at(from + this.#random.next() * (to - from), act);
    }
  }

  after(atMs: number, share: number, act: (atMs: number) => void): void {
    this.at(atMs / this.#lengthMs + share, act);
  }

  /** Something done to a client that is there and right, if any is. */
  withClient(act: (client: Client, atMs: number) => void): (atMs: number) => void {
    return (atMs) => {
      const living = this.#crm.living();
      if (living.length > 0) act(this.#random.pick(living), atMs);
    };
  }

  /** Sends an event, some time after it happened, some a second time later on. */
  send(event: Envelope, atMs: number, how: { route?: Route; late?: number } = {}): void {
    const route = (): Route => how.route ?? this.#random.pick(ROUTES);
    const sentAt = atMs + Math.round((how.late ?? 0) * this.#lengthMs);
    this.deliveries.push({ atMs: sentAt, route: route(), event });
    if (!this.#random.chance(SENT_TWICE)) return;
    const again = sentAt + Math.round(this.#random.next() * 0.03 * this.#lengthMs);
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
