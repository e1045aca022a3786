/**
 * The tenant's value lists as last fetched from the service, shared by all processes. Times are
 * those of Redis' clock, ms.
 */
import type { Redis } from "ioredis";
import { jsonReading, readOne, reading, type Reading } from "../../base/redis-reading.ts";
import { listChanges, lossesAfter, type ListChange } from "../service-spec/list-changes.ts";
import {
  DEFAULT_TENANT_LISTS,
  tenantFields,
  tenantListsOf,
  type Losses,
  type TenantLists,
} from "../service-spec/tenant-lists.ts";
import type { Keys } from "./keys.ts";
import { Store } from "./store.ts";

/**
 * Doubted lists are fetched again at most this often per hour window, and no list is doubted that is
 * younger than this part of it.
 */
const DOUBTS_PER_HOUR = 6;
const YOUNG_HOURS = 1 / 60;

/** How long an event that the lists refuse waits for them to be fetched again, ms. */
const WAIT_MS = 30_000;

/** For how long missed values are remembered, ms. */
const MISSED_MS = 30 * 24 * 3_600_000;

/** Relations that were sent without a value which the lists may allow by now. */
export interface MissedValues {
  /** When a list was last seen to allow more than before, ms. */
  readonly at: number;
  /** Field → how many relations. */
  readonly records: Readonly<Record<string, number>>;
}

/**
 * Fields of the hash, beside `missed` (MissedValues, as JSON). `lost`: Losses, as JSON. `changed`: the fields whose
 * lists allow more, as JSON, until dead letters and the ledger were looked through.
 */
const FIELDS = ["body", "lost", "changed", "at", "doubted", "asked"] as const;

export class StoredTenantLists extends Store {
  readonly #hourMs: number;
  #current: TenantLists = DEFAULT_TENANT_LISTS;
  #known = "";
  #lost: string | undefined;
  #fetchedAt: number | undefined;

  /** @param hourMs length of the quota's hour window. */
  constructor(redis: Redis, keys: Keys, hourMs: number) {
    super(redis, keys);
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
    const { body, at, lost } = await this.#fields();
    if (body !== undefined && (body !== this.#known || lost !== this.#lost)) {
      this.#current = tenantListsOf(fieldsIn(body), lossesIn(lost));
      this.#known = body;
      this.#lost = lost;
    }
    this.#fetchedAt = at;
    return body !== undefined;
  }

  /** When the lists were last fetched; undefined: never. */
  fetchedAtReading(): Reading<number | undefined> {
    return jsonReading("hget", this.keys.schemaConfig, "at");
  }

  fetchedAt(): Promise<number | undefined> {
    return readOne(this.redis, this.fetchedAtReading());
  }

  /** Notes that the lists may have changed: the service and they disagree about a value. */
  async doubt(now: number): Promise<void> {
    await this.write("HSETNX", this.keys.schemaConfig, "doubted", now);
  }

  /** A person asks for the lists: neither a doubt nor a failed request before delays it. */
  async refresh(now: number): Promise<void> {
    const { schemaConfig, schemaConfigAsking } = this.keys;
    await this.redis.hdel(schemaConfig, "asked");
    await this.doubt(now);
    await this.redis.del(schemaConfigAsking);
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

  /** From when on doubted lists may be fetched. @param times when they were fetched, and when because of a doubt */
  #mayAskFrom(times: Record<"at" | "asked", number | undefined>): number {
    const { at = 0, asked = Number.NEGATIVE_INFINITY } = times;
    return Math.max(at + this.#hourMs * YOUNG_HOURS, asked + this.#hourMs / DOUBTS_PER_HOUR);
  }

  /** Whether this process may fetch the lists now; one process may at a time. */
  claim(forMs: number): Promise<boolean> {
    return this.claimFor(this.keys.schemaConfigAsking, forMs);
  }

  /** Lets a process fetch the lists again after a pause. */
  async release(pauseMs: number): Promise<void> {
    await this.write("SET", this.keys.schemaConfigAsking, "1", "PX", pauseMs);
  }

  /**
   * Stores a response of the schema-config endpoint. Of a field that cannot be read, the last known list stays.
   * @returns how it differs from the lists before; undefined when it has no fields: the last known lists then stay.
   */
  async store(body: unknown, now: number): Promise<ListChange[] | undefined> {
    const { fields } = (body ?? {}) as { readonly fields?: unknown };
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) return undefined;
    const { usable, unusable } = tenantFields(fields as Readonly<Record<string, unknown>>);
    const isFirst = !(await this.reload());
    const former = Object.entries(isFirst ? {} : fieldsIn(this.#known));
    const stays = Object.fromEntries(former.filter(([name]) => unusable.includes(name)));
    const all = { ...usable, ...stays };
    const lists = tenantListsOf(all);
    const changes = isFirst ? [] : listChanges(this.#current, lists);
    const key = this.keys.schemaConfig;
    const { changed = "[]", doubted, lost } = await this.#fields();
    const stored = ["body", JSON.stringify({ fields: all }), "at", now];
    if (doubted !== undefined) stored.push("asked", now);
    if (changes.length > 0) {
      const grown = changes.filter(({ allowsMore }) => allowsMore).map(({ field }) => field);
      const fields = [...fieldsOf(changed), ...grown];
      const losses = lossesAfter(lossesIn(lost), this.#current, lists, now);
      stored.push("changed", JSON.stringify(fields), "lost", JSON.stringify(losses));
    }
    await this.write("HSET", key, ...stored);
    await this.redis.hdel(key, "doubted");
    await this.redis.del(this.keys.schemaConfigAsking);
    await this.reload();
    return changes;
  }

  /** What the lists have lost. */
  lossesReading(): Reading<Losses> {
    return reading(["hget", this.keys.schemaConfig, "lost"], (text: string | null) =>
      lossesIn(text ?? undefined),
    );
  }

  /** Undefined: no list allows more than when records were sent. */
  missedReading(): Reading<MissedValues | undefined> {
    return jsonReading("hget", this.keys.schemaConfig, "missed");
  }

  /** Only the CRM has the values: the status names the fields and how many relations lack them. */
  async noteMissed(missed: Readonly<Record<string, number>>, now: number): Promise<void> {
    const before = await readOne(this.redis, this.missedReading());
    const isOld = before === undefined || now - before.at > MISSED_MS;
    const records = { ...(isOld ? {} : before.records), ...missed };
    const text = JSON.stringify({ at: now, records } satisfies MissedValues);
    await this.write("HSET", this.keys.schemaConfig, "missed", text);
  }

  /**
   * Whether the lists have changed, and dead letters and the ledger were not looked through since.
   * @returns the fields that allow more by now; undefined: nothing has changed.
   */
  async haveChanged(): Promise<readonly string[] | undefined> {
    const { changed } = await this.#fields();
    return changed === undefined ? undefined : fieldsOf(changed);
  }

  /** They were looked through. */
  async endChange(): Promise<void> {
    await this.redis.hdel(this.keys.schemaConfig, "changed");
  }

  async #fields() {
    const values = await this.redis.hmget(this.keys.schemaConfig, ...FIELDS);
    const [body, lost, changed, ...times] = values.map((value) => value ?? undefined);
    const [at, doubted, asked] = times.map((time) => (time ? Number(time) : undefined));
    return { body, lost, changed, at, doubted, asked };
  }
}

/** @param body as it was stored: every field of it can be read */
const fieldsIn = (body: string) =>
  tenantFields((JSON.parse(body) as { readonly fields: Readonly<Record<string, unknown>> }).fields)
    .usable;

const fieldsOf = (changed: string) => JSON.parse(changed) as readonly string[];

const lossesIn = (text: string | undefined): Losses =>
  text === undefined ? {} : (JSON.parse(text) as Losses);
