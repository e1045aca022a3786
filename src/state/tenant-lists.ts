/**
 * The tenant's value lists as last fetched from the service, shared by all processes. Times are
 * those of Redis' clock, ms.
 */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisWrite } from "../ops/redis-script.ts";
import { listChanges, type ListChange } from "../service-spec/list-changes.ts";
import {
  DEFAULT_TENANT_LISTS,
  tenantListsOf,
  tenantSchemaResponse,
  type TenantLists,
} from "../service-spec/tenant-lists.ts";
import type { Keys } from "./keys.ts";

/**
 * Doubted lists are fetched again at most this often per hour window, and no list is doubted that is
 * younger than this part of it.
 */
const DOUBTS_PER_HOUR = 6;
const YOUNG_HOURS = 1 / 60;

/** How long an event that the lists refuse waits for them to be fetched again, ms. */
const WAIT_MS = 30_000;

/** When the lists were fetched, and when they were last fetched because they were doubted. */
interface StoredTimes {
  readonly at: number | undefined;
  readonly asked: number | undefined;
}

/** Fields of the hash; `changed` is set until the dead letters were looked through. */
const FIELDS = ["body", "at", "doubted", "asked", "changed"] as const;

export class StoredTenantLists {
  readonly #redis: Redis;
  readonly #write: ReturnType<typeof redisWrite>;
  readonly #keys: Keys;
  readonly #hourMs: number;
  #current: TenantLists = DEFAULT_TENANT_LISTS;
  #known = "";
  #fetchedAt: number | undefined;

  /** @param hourMs length of the quota's hour window. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    this.#redis = redis;
    this.#write = redisWrite(redis);
    this.#keys = keys;
    this.#hourMs = hourMs;
  }

  /** The lists that this process uses: the spec's defaults until the tenant's are known. */
  current(): TenantLists {
    return this.#current;
  }

  /** The tenant's own lists; undefined until this process knows them. */
  known(): TenantLists | undefined {
    return this.#known === "" ? undefined : this.#current;
  }

  /** Reads the lists that a process has stored. @returns whether the tenant's own lists are known. */
  async reload(): Promise<boolean> {
    const { body, at } = await this.#fields();
    if (body !== undefined && body !== this.#known) {
      this.#current = tenantListsOf(tenantSchemaResponse.parse(JSON.parse(body)));
      this.#known = body;
    }
    this.#fetchedAt = at;
    return body !== undefined;
  }

  /** When the lists were last fetched; undefined: never. */
  fetchedAtReading(): Reading<number | undefined> {
    return reading(["hget", this.#keys.schemaConfig, "at"], (at: string | null) =>
      at === null ? undefined : Number(at),
    );
  }

  fetchedAt(): Promise<number | undefined> {
    return readOne(this.#redis, this.fetchedAtReading());
  }

  /** Notes that the lists may have changed: the service and they disagree about a value. */
  async doubt(now: number): Promise<void> {
    await this.#write("HSETNX", this.#keys.schemaConfig, "doubted", now);
  }

  /**
   * Asks for the lists again, because they refuse a value that the service may allow by now.
   * @returns whether to wait for that: false when they were fetched lately, or cannot be.
   */
  async askAgain(now: number): Promise<boolean> {
    const stored = await this.#fields();
    if (stored.at !== this.#fetchedAt) {
      await this.reload();
      return true;
    }
    if (now < this.#mayAskFrom(stored)) return false;
    if (stored.doubted === undefined) await this.doubt(now);
    return now - (stored.doubted ?? now) < WAIT_MS;
  }

  /** Whether the lists should be fetched now. */
  async areDue(now: number): Promise<boolean> {
    const stored = await this.#fields();
    if (stored.at === undefined || now - stored.at >= this.#hourMs) return true;
    return stored.doubted !== undefined && now >= this.#mayAskFrom(stored);
  }

  /** From when on doubted lists may be fetched. */
  #mayAskFrom({ at = 0, asked = Number.NEGATIVE_INFINITY }: Partial<StoredTimes>): number {
    return Math.max(at + this.#hourMs * YOUNG_HOURS, asked + this.#hourMs / DOUBTS_PER_HOUR);
  }

  /** Whether this process may fetch the lists now; one process may at a time. */
  async claim(forMs: number): Promise<boolean> {
    const key = this.#keys.schemaConfigAsking;
    return (await this.#write("SET", key, "1", "PX", forMs, "NX")) === "OK";
  }

  /** Lets a process fetch the lists again after a pause. */
  async release(pauseMs: number): Promise<void> {
    await this.#write("SET", this.#keys.schemaConfigAsking, "1", "PX", pauseMs);
  }

  /**
   * Stores a response of the schema-config endpoint.
   * @returns how it differs from the lists before; undefined when it is not as the spec promises:
   *   the last known lists then stay.
   */
  async store(body: unknown, now: number): Promise<ListChange[] | undefined> {
    const parsed = tenantSchemaResponse.safeParse(body);
    if (!parsed.success) return undefined;
    const isFirst = !(await this.reload());
    const changes = isFirst ? [] : listChanges(this.#current, tenantListsOf(parsed.data));
    const key = this.#keys.schemaConfig;
    const { doubted } = await this.#fields();
    const fields = ["body", JSON.stringify(body), "at", now];
    if (doubted !== undefined) fields.push("asked", now);
    if (changes.length > 0) fields.push("changed", now);
    await this.#write("HSET", key, ...fields);
    await this.#redis.hdel(key, "doubted");
    await this.#redis.del(this.#keys.schemaConfigAsking);
    await this.reload();
    return changes;
  }

  /** Whether the lists have changed, and the dead letters were not looked through since. */
  async haveChanged(): Promise<boolean> {
    return (await this.#fields()).changed !== undefined;
  }

  /** The dead letters were looked through. */
  async endChange(): Promise<void> {
    await this.#redis.hdel(this.#keys.schemaConfig, "changed");
  }

  async #fields() {
    const values = await this.#redis.hmget(this.#keys.schemaConfig, ...FIELDS);
    const [body, ...times] = values.map((value) => value ?? undefined);
    const [at, doubted, asked, changed] = times.map((time) => (time ? Number(time) : undefined));
    return { body, at, doubted, asked, changed };
  }
}
