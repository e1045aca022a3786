/** Which processes run, as each tells of itself; one that is silent for long is taken for dead. */
import type { Redis } from "ioredis";
import type { Keys } from "./keys.ts";

/** How often a process tells that it is there, and after how long it is taken for dead, ms. */
export const HEARTBEAT_EVERY_MS = 5000;
const DEAD_AFTER_MS = 30_000;

/** A process's own word for itself. */
export interface ProcessInfo {
  /** `<host>:<pid>` */
  readonly id: string;
  readonly version: string;
  readonly roles: readonly string[];
  readonly startedAt: number;
}

export interface RunningProcess extends ProcessInfo {
  /** When it was last heard of, ms. */
  readonly seenAt: number;
}

export class Heartbeats {
  readonly #redis: Redis;
  readonly #key: string;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#key = keys.heartbeats;
  }

  async beat(info: ProcessInfo, now: number): Promise<void> {
    const seen: RunningProcess = { ...info, seenAt: now };
    await this.#redis.hset(this.#key, info.id, JSON.stringify(seen));
  }

  async leave(id: string): Promise<void> {
    await this.#redis.hdel(this.#key, id);
  }

  /** Those that run; the dead are forgotten on the way. */
  async running(now: number): Promise<RunningProcess[]> {
    const texts = Object.values(await this.#redis.hgetall(this.#key));
    const all = texts.map((text) => JSON.parse(text) as RunningProcess);
    const dead = all.filter(({ seenAt }) => now - seenAt > DEAD_AFTER_MS);
    if (dead.length > 0) await this.#redis.hdel(this.#key, ...dead.map(({ id }) => id));
    return all
      .filter((one) => !dead.includes(one))
      .sort((a, b) => a.startedAt - b.startedAt || a.id.localeCompare(b.id));
  }
}
