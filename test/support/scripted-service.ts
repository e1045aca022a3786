import { Permit } from "../../src/core/quota/permit.ts";
import type { Sendable } from "../../src/core/sync/decide.ts";
import type { ServiceReply } from "../../src/core/sync/service-reply.ts";
import type { ServiceAccess } from "../../workers/service-access.ts";
import { waitFor } from "./wait-for.ts";

/** The parts that no test uses. */
const UNUSED = { quota: {} } as ServiceAccess;

/** A service whose replies the test gives, one by one. */
export class ScriptedService {
  readonly requests: { readonly decision: Sendable; reply(reply: ServiceReply): void }[] = [];
  permits = Number.POSITIVE_INFINITY;
  /** How many permits were requested. */
  permitRequests = 0;
  /** How many were given back. */
  cancelled = 0;
  /** How many of them wait. */
  waiting = 0;
  #ended = false;

  /** Answers what is under way, and what will be. */
  end(): void {
    this.#ended = true;
    for (const request of this.requests) request.reply({ kind: "throttled" });
  }

  access(): ServiceAccess {
    return {
      ...UNUSED,
      quota: { ...UNUSED.quota, acquire: (lane, signal) => this.#permit(lane, signal) },
      isReady: async () => true,
      mayTry: async () => true,
      requestOf: () => undefined,
      send: (_permit, decision) =>
        new Promise((answer) => {
          const reply = (one: ServiceReply) => answer({ reply: one, isRejecting: false });
          if (this.#ended) reply({ kind: "throttled" });
          this.requests.push({ decision, reply });
        }),
    };
  }

  /** The nth request, from 1; waits for it. */
  async nth(n: number) {
    return waitFor(() => this.requests[n - 1], { what: `request ${n}` });
  }

  async #permit(lane: "live" | "bulk", signal: AbortSignal | undefined): Promise<Permit> {
    this.permitRequests += 1;
    this.waiting += 1;
    try {
      while (this.permits <= 0) {
        signal?.throwIfAborted();
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      this.waiting -= 1;
    }
    return new Permit(lane, {
      fresh: () => true,
      sending() {},
      cancelled: () => {
        this.cancelled += 1;
      },
      unsent() {},
      answered: async () => {},
    });
  }
}
