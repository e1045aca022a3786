/**
 * The right to one request. Only the quota makes permits and only the service client spends them,
 * so nothing reaches the service uncounted.
 */
import type { ReplyHeaders } from "../../base/retry-after.ts";
import type { Lane } from "../event/lane.ts";

/** How an exchange ended; `status` is absent when no response came. */
export type ExchangeResult = { readonly status?: number; readonly headers?: ReplyHeaders };

/** What the quota does when a permit ends. */
export interface PermitHooks {
  /** False when the permit is so old that another process may have its slots. */
  fresh(): boolean;
  /** Its request is being written. */
  sending(): void;
  /** The permit was not used: both slots return at once. */
  cancelled(): void;
  /** No byte was written (connection refused, DNS, TLS): only the burst slot counts. */
  unsent(): void;
  answered(result: ExchangeResult): Promise<void>;
}

export class StalePermitError extends Error {
  override name = "StalePermitError";
  override message = "the permit is too old to be spent";
}

export class SpentPermitError extends Error {
  override name = "SpentPermitError";
  override message = "the permit was used before";
}

export class Permit {
  readonly lane: Lane;
  readonly #hooks: PermitHooks;
  #state: "held" | "tried" | "spent" | "ended" = "held";

  constructor(lane: Lane, hooks: PermitHooks) {
    this.lane = lane;
    this.#hooks = hooks;
  }

  /** Whether the request went out on the wire. */
  get spent(): boolean {
    return this.#state === "spent";
  }

  /** Whether its slots last until its request arrives. */
  get isFresh(): boolean {
    return this.#hooks.fresh();
  }

  /** Reserves the permit for one exchange. @throws SpentPermitError when it was reserved or cancelled before */
  use(): void {
    if (this.#state !== "held") throw new SpentPermitError();
    this.#state = "tried";
  }

  /**
   * Called right before the write, so that this process cannot sleep between the two.
   * @throws StalePermitError when another process may have the slots: nothing may be written.
   */
  spend(): void {
    if (this.#state !== "tried") throw new SpentPermitError();
    if (!this.isFresh) throw new StalePermitError();
    this.#state = "spent";
    this.#hooks.sending();
  }

  /** Returns an unused permit at once; does nothing to a used one. */
  cancel(): void {
    if (this.#state !== "held") return;
    this.#state = "ended";
    this.#hooks.cancelled();
  }

  /** Ends the exchange; resolves when what the response says about the quota is shared. */
  async done(result: ExchangeResult): Promise<void> {
    const state = this.#state;
    this.#state = "ended";
    if (state === "tried") this.#hooks.unsent();
    if (state === "spent") await this.#hooks.answered(result);
  }
}
