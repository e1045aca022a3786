/** What is known of reconciliations: what the last one found, and how far each plan was carried out. */
import type { Redis } from "ioredis";
import { readOne, reading, type Reading } from "../ops/redis-reading.ts";
import { redisWrite } from "../ops/redis-script.ts";
import { DRIFT_KINDS, type DriftKind } from "../sync/drift.ts";
import type { Keys } from "./keys.ts";

/** After this long without a sign of its process, another one may carry out a plan, ms. */
export const PLAN_LEASE_MS = 15_000;

/** How often the process that carries out a plan must call `claim`, ms. */
export const RENEW_PLAN_MS = PLAN_LEASE_MS / 5;

/** For how long a plan is known as used: it may be applied no longer than that. */
export const PLAN_KEPT_HOURS = 180 * 24;

export interface Reconciliation {
  /** When the comparison ended, ms. */
  readonly at: number;
  /** How long it took, ms. */
  readonly tookMs: number;
  readonly records: number;
  readonly equal: number;
  /** What differs, and was not repaired by its plan. */
  readonly drift: Readonly<Record<DriftKind, number>>;
}

export interface PlanProgress {
  readonly state: "running" | "done";
  /** Entries that were carried out. */
  readonly done: number;
}

export class Reconciliations {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #write: ReturnType<typeof redisWrite>;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#write = redisWrite(redis);
  }

  /** Undefined before the first one. */
  last(): Reading<Reconciliation | undefined> {
    return reading(["hgetall", this.#keys.reconciliation], (field: Record<string, string>) =>
      field["at"] === undefined
        ? undefined
        : {
            at: Number(field["at"]),
            tookMs: Number(field["took"]),
            records: Number(field["records"]),
            equal: Number(field["equal"]),
            drift: Object.fromEntries(
              DRIFT_KINDS.map((kind) => [kind, Number(field[kind] ?? 0)]),
            ) as Reconciliation["drift"],
          },
    );
  }

  async keep({ at, tookMs, records, equal, drift }: Reconciliation): Promise<void> {
    const fields = { at, took: tookMs, records, equal, ...drift };
    await this.#write("HSET", this.#keys.reconciliation, ...Object.entries(fields).flat());
  }

  /** A difference was repaired. */
  async repaired(kind: DriftKind, count: number): Promise<void> {
    const known = await readOne(this.#redis, this.last());
    if (known === undefined || count === 0) return;
    const left = Math.max(0, known.drift[kind] - count);
    await this.#write("HSET", this.#keys.reconciliation, kind, left);
  }

  /** Undefined for a plan that was not used. */
  async progress(planId: string): Promise<PlanProgress | undefined> {
    const [state, done] = await this.#redis.hmget(this.#keys.plan(planId), "state", "done");
    if (state !== "running" && state !== "done") return undefined;
    return { state, done: Number(done ?? 0) };
  }

  async note(planId: string, { state, done }: PlanProgress): Promise<void> {
    const key = this.#keys.plan(planId);
    await this.#write("HSET", key, "state", state, "done", done);
    await this.#redis.expire(key, PLAN_KEPT_HOURS * 3600);
  }

  /** Whether this process may carry out a plan now, or go on; one process may at a time. */
  async claim(owner: string): Promise<boolean> {
    const key = this.#keys.planOwner;
    if ((await this.#write("SET", key, owner, "PX", PLAN_LEASE_MS, "NX")) === "OK") return true;
    if ((await this.#redis.get(key)) !== owner) return false;
    await this.#redis.pexpire(key, PLAN_LEASE_MS);
    return true;
  }

  async release(owner: string): Promise<void> {
    if ((await this.#redis.get(this.#keys.planOwner)) === owner) {
      await this.#redis.del(this.#keys.planOwner);
    }
  }
}
