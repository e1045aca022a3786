/** Which service and tenant the ledger is about: what another one has is not in it. */
import { digestOf } from "./keys.ts";
import { Store } from "./store.ts";

/** Names a service without its address. @param baseUrl without the version prefix */
export const serviceName = (baseUrl: string): string =>
  digestOf((URL.parse(baseUrl)?.href ?? baseUrl).replace(/\/+$/, "")).slice(0, 8);

/** Names a token, which cannot be read from it. */
export const tokenName = (token: string): string => digestOf(token).slice(0, 8);

export class KnownService extends Store {
  /** Its name; undefined before the first process has begun to send. */
  async name(): Promise<string | undefined> {
    return (await this.redis.get(this.keys.service)) ?? undefined;
  }

  async note(name: string): Promise<void> {
    await this.write("SET", this.keys.service, name);
  }

  /** Whether the token of this name is known to be of the ledger's tenant; undefined while no token is. */
  async hasToken(name: string): Promise<boolean | undefined> {
    if ((await this.redis.sismember(this.keys.serviceTokens, name)) === 1) return true;
    return (await this.redis.exists(this.keys.serviceTokens)) === 1 ? false : undefined;
  }

  /** Notes a token with which the service has shown a relation that the ledger knows. */
  async addToken(name: string): Promise<void> {
    await this.write("SADD", this.keys.serviceTokens, name);
  }

  /** The ledger knows nothing: from here on it is about the tenant of this token. */
  async firstToken(name: string): Promise<void> {
    await this.redis.del(this.keys.serviceTokens);
    await this.addToken(name);
  }
}
