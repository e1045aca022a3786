/** The tenant's value lists as last fetched from the service, shared by all processes. */
import type { Redis } from "ioredis";
import {
  DEFAULT_TENANT_LISTS,
  tenantListsOf,
  tenantSchemaResponse,
  type TenantLists,
} from "../service-spec/tenant-lists.ts";
import type { Keys } from "./keys.ts";

export class StoredTenantLists {
  readonly #redis: Redis;
  readonly #keys: Keys;
  #current: TenantLists = DEFAULT_TENANT_LISTS;
  #known = "";

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** The lists that this process uses: the spec's defaults until the tenant's are known. */
  current(): TenantLists {
    return this.#current;
  }

  /** Reads the lists that a process has stored. @returns whether the tenant's own lists are known. */
  async reload(): Promise<boolean> {
    const text = await this.#redis.hget(this.#keys.schemaConfig, "body");
    if (text !== null && text !== this.#known) {
      this.#current = tenantListsOf(tenantSchemaResponse.parse(JSON.parse(text)));
      this.#known = text;
    }
    return text !== null;
  }

  /** When the lists were last fetched, ms; undefined: never. */
  async fetchedAt(): Promise<number | undefined> {
    const at = await this.#redis.hget(this.#keys.schemaConfig, "at");
    return at === null ? undefined : Number(at);
  }

  /** Notes that the service rejected a value that the lists allow: they may have changed. */
  async doubt(): Promise<void> {
    await this.#redis.hset(this.#keys.schemaConfig, "doubted", "1");
  }

  async isDoubted(): Promise<boolean> {
    return (await this.#redis.hexists(this.#keys.schemaConfig, "doubted")) === 1;
  }

  /** Whether this process may fetch the lists now; one process may at a time. */
  async claim(forMs: number): Promise<boolean> {
    return (await this.#redis.set(this.#keys.schemaConfigAsking, "1", "PX", forMs, "NX")) === "OK";
  }

  /**
   * Stores a response of the schema-config endpoint.
   * @returns false when it is not as the spec promises; the last known lists then stay.
   */
  async store(body: unknown, now: number): Promise<boolean> {
    const parsed = tenantSchemaResponse.safeParse(body);
    if (!parsed.success) return false;
    await this.#redis
      .multi()
      .hset(this.#keys.schemaConfig, "body", JSON.stringify(body), "at", now)
      .hdel(this.#keys.schemaConfig, "doubted")
      .del(this.#keys.schemaConfigAsking)
      .exec();
    await this.reload();
    return true;
  }
}
