/** The tenant's value lists as last fetched from the service, shared by all processes. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import {
  DEFAULT_TENANT_LISTS,
  tenantListsOf,
  tenantSchemaResponse,
  type TenantLists,
} from "../service-spec/tenant-lists.ts";
import type { Keys } from "./keys.ts";

export class StoredTenantLists {
  readonly #redis: Redis;
  readonly #write: ReturnType<typeof redisWrite>;
  readonly #keys: Keys;
  #current: TenantLists = DEFAULT_TENANT_LISTS;
  #known = "";

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#write = redisWrite(redis);
    this.#keys = keys;
  }

  /** The lists that this process uses: the spec's defaults until the tenant's are known. */
  current(): TenantLists {
    return this.#current;
  }

  /** Whether this process knows the tenant's own lists. */
  areKnown(): boolean {
    return this.#known !== "";
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
    await this.#write("HSET", this.#keys.schemaConfig, "doubted", "1");
  }

  async isDoubted(): Promise<boolean> {
    return (await this.#redis.hexists(this.#keys.schemaConfig, "doubted")) === 1;
  }

  /** Whether this process may fetch the lists now; one process may at a time. */
  async claim(forMs: number): Promise<boolean> {
    const key = this.#keys.schemaConfigAsking;
    return (await this.#write("SET", key, "1", "PX", forMs, "NX")) === "OK";
  }

  /** Lets a process fetch the lists again after a pause. */
  async release(pauseMs: number): Promise<void> {
    await this.#redis.pexpire(this.#keys.schemaConfigAsking, pauseMs);
  }

  /**
   * Stores a response of the schema-config endpoint.
   * @returns false when it is not as the spec promises; the last known lists then stay.
   */
  async store(body: unknown, now: number): Promise<boolean> {
    const parsed = tenantSchemaResponse.safeParse(body);
    if (!parsed.success) return false;
    await this.#write("HSET", this.#keys.schemaConfig, "body", JSON.stringify(body), "at", now);
    await this.#redis.hdel(this.#keys.schemaConfig, "doubted");
    await this.#redis.del(this.#keys.schemaConfigAsking);
    await this.reload();
    return true;
  }
}
