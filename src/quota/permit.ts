/**
 * The right to one request. Only the quota makes permits and only the service client spends them,
 * so nothing reaches the service uncounted.
 */
import type { Lane } from "../sync/lane.ts";

/** Response headers as they came, names in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** How an exchange ended; `status` is absent when no answer came. */
export interface ExchangeResult {
  readonly status?: number;
  readonly headers?: ReplyHeaders;
}

/** What the quota does with a permit that comes back. */
export interface PermitHooks {
  /** False once the permit is so old that its slots may have been given to another. */
  fresh(): boolean;
  /** Nothing was sent and nothing was tried: both slots return at once. */
  cancelled(): void;
  /** Tried, yet no byte was written (refused, DNS, TLS): only the burst slot counts. */
  unsent(): void;
  answered(answer: ExchangeResult): Promise<void>;
}

export class StalePermitError extends Error {
  constructor() {
    super("the permit is too old to be spent");
    this.name = "StalePermitError";
  }
}

export class SpentPermitError extends Error {
  constructor() {
    super("the permit was used before");
    this.name = "SpentPermitError";
  }
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

  /**
   * Reserves the permit for one exchange.
   * @throws SpentPermitError when it was reserved or cancelled before.
   */
  use(): void {
    if (this.#state !== "held") throw new SpentPermitError();
    this.#state = "tried";
  }

  /**
   * Called at the very moment of writing, so that no pause of this process can come between.
   * @throws StalePermitError when the slots may belong to another by now: nothing may be written.
   */
  spend(): void {
    if (this.#state !== "tried") throw new SpentPermitError();
    if (!this.#hooks.fresh()) throw new StalePermitError();
    this.#state = "spent";
  }

  /** Gives an unused permit back at once; later calls and used permits are left alone. */
  cancel(): void {
    if (this.#state !== "held") return;
    this.#state = "ended";
    this.#hooks.cancelled();
  }

  /** Ends the exchange; resolves once what the answer says of the quota is shared. */
  async done(answer: ExchangeResult): Promise<void> {
    const state = this.#state;
    this.#state = "ended";
    if (state === "tried") this.#hooks.unsent();
    if (state === "spent") await this.#hooks.answered(answer);
  }
}
