import type { TokenDoubt } from "../src/core/state/heartbeats.ts";

/** Whether this process may send with a token. */
export class TenantOfToken {
  #token: string | undefined;
  #doubt: TokenDoubt | undefined;
  readonly #listeners = new Set<() => void>();

  /** Whether this token is known to be of the ledger's tenant. */
  isKnown(token: string): boolean {
    return token === this.#token;
  }

  /** Why nothing may be sent with the token in force; undefined if it is known, and before its check has ended. */
  get doubt(): TokenDoubt | undefined {
    return this.#doubt;
  }

  accept(token: string): void {
    this.#token = token;
    this.#set(undefined);
  }

  /** Another token was taken for the ledger's tenant's meanwhile: this one must be checked again. */
  forget(): void {
    this.#token = undefined;
  }

  refuse(doubt: TokenDoubt): void {
    this.#set(doubt);
  }

  /** Calls back when the doubt has changed, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #set(doubt: TokenDoubt | undefined): void {
    if (this.#doubt === doubt) return;
    this.#doubt = doubt;
    for (const listener of this.#listeners) listener();
  }
}
