/** Which processes run: each writes a heartbeat; one without a recent heartbeat counts as ended. */
import type { Redis } from "ioredis";
import { redisWrite } from "../ops/redis-script.ts";
import type { Keys } from "./keys.ts";

/** How often a process writes its heartbeat. */
export const HEARTBEAT_EVERY_MS = 5000;

/** After this long without a heartbeat a process counts as ended. */
const ENDED_AFTER_MS = 30_000;

/** The parts of the daemon's work that a process may do. */
export const ROLES = ["http", "intake", "sync"] as const;
export type Role = (typeof ROLES)[number];

export interface ProcessInfo {
  /** `<host>:<pid>` */
  readonly id: string;
  readonly version: string;
  readonly roles: readonly string[];
  readonly startedAt: number;
}

export interface RunningProcess extends ProcessInfo {
  /** Time of its last heartbeat, ms. */
  readonly seenAt: number;
}

export class Heartbeats {
  readonly #redis: Redis;
  readonly #write: ReturnType<typeof redisWrite>;
  readonly #key: string;

  constructor(redis: Redis, keys: Keys) {
    this.#redis = redis;
    this.#write = redisWrite(redis);
    this.#key = keys.heartbeats;
  }

  async beat(info: ProcessInfo, now: number): Promise<void> {
    const seen: RunningProcess = { ...info, seenAt: now };
    await this.#write("HSET", this.#key, info.id, JSON.stringify(seen));
  }

  async leave(id: string): Promise<void> {
    await this.#redis.hdel(this.#key, id);
  }

  /** The processes that run, oldest first. Deletes the heartbeats of ended processes. */
  async running(now: number): Promise<RunningProcess[]> {
    const texts = Object.values(await this.#redis.hgetall(this.#key));
    const all = texts.map((text) => JSON.parse(text) as RunningProcess);
    const ended = all.filter(({ seenAt }) => now - seenAt > ENDED_AFTER_MS);
    if (ended.length > 0) await this.#redis.hdel(this.#key, ...ended.map(({ id }) => id));
    return all
      .filter((one) => !ended.includes(one))
      .sort((a, b) => a.startedAt - b.startedAt || a.id.localeCompare(b.id));
  }
}
