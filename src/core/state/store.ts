/** What every store of this folder has: a client, the names of its tenant's keys, and how it writes. */
import type { Redis } from "ioredis";
import { nowReading, scriptReading, type Reading } from "../../base/redis-reading.ts";
import { redisScript, redisWrites, type RedisScript } from "../../base/redis-script.ts";
import type { Keys } from "./keys.ts";

/** A command, its key, and its arguments after the key. */
export type Call = readonly [command: string, key: string, ...args: readonly (string | number)[]];

/** A command, and last what it must still reply; "": nothing. */
export type Check = Call;

/** Commands that free memory: a Redis that is full lets a script go on after them. */
const FREES = /^(?:DEL|HDEL|ZREM|SREM)$/;

/** How often a lock is renewed within the time after which it would end. */
const RENEWALS = 5;

const luaFile = (name: string): URL => new URL(`./lua/${name}.lua`, import.meta.url);

/** A reading by a script of this folder. */
export const luaReading = <T>(
  name: string,
  keys: readonly string[],
  args: readonly (string | number)[],
  meaning: (reply: never) => T,
): Reading<T> => scriptReading(luaFile(name), keys, args, meaning);

/** Reads in one round trip. @throws the error of the first command that Redis did not carry out. */
export async function readAll(
  redis: Redis,
  commands: readonly (readonly [command: string, ...args: readonly (string | number)[]])[],
): Promise<unknown[]> {
  const named = commands.map(([name, ...args]) => [name.toLowerCase(), ...args]);
  const replies = (await redis.pipeline(named).exec()) ?? [];
  return replies.map(([error, reply]) => {
    if (error !== null) throw error;
    return reply;
  });
}

/** The JSON object in a value; undefined for what somebody has damaged. */
export function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}

export abstract class Store {
  readonly redis: Redis;
  readonly keys: Keys;
  readonly #commit: RedisScript<number>;
  /** Commands in one step, also at Redis' memory limit. @returns their replies */
  protected readonly writes: ReturnType<typeof redisWrites>;

  constructor(redis: Redis, keys: Keys) {
    this.redis = redis;
    this.keys = keys;
    this.#commit = this.script("commit");
    this.writes = redisWrites(redis);
  }

  /** @returns whether it was done; if not, a check has failed, and nothing was written. */
  async commit(checks: readonly Check[], calls: readonly Call[]): Promise<boolean> {
    const all: Call[] = [
      ...checks,
      ...calls.filter(([command]) => FREES.test(command)),
      ...calls.filter(([command]) => !FREES.test(command)),
    ];
    const keys = all.map(([, key]) => key);
    const args = all.flatMap(([command, , ...rest]) => [rest.length + 1, command, ...rest]);
    return (await this.#commit(keys, [checks.length, ...args])) === 1;
  }

  /** Replaces a value of a hash, or deletes it, if it is still the one that was read. */
  protected swap(
    key: string,
    field: string,
    before: string | null,
    after: string | undefined,
  ): Promise<boolean> {
    const isRead = ["HGET", key, field, before ?? ""] as const;
    return this.commit(
      [isRead],
      [after === undefined ? ["HDEL", key, field] : ["HSET", key, field, after]],
    );
  }

  /** A script of this folder. */
  protected script<Reply>(name: string): RedisScript<Reply> {
    return redisScript(this.redis, luaFile(name));
  }

  /** As `writes`, for one command. */
  protected async write(...command: Call): Promise<unknown> {
    return (await this.writes([command]))[0];
  }

  /** Redis' time, ms. */
  protected async time(): Promise<number> {
    return nowReading.meaning(await this.redis.time());
  }

  /**
   * A lock for work that one process at a time does.
   * @param forMs after this long without a sign of its owner, another one gets it
   */
  protected leaseFor(key: string, forMs: number) {
    const claim = async (owner: string): Promise<boolean> => {
      if ((await this.write("SET", key, owner, "PX", forMs, "NX")) === "OK") return true;
      if ((await this.redis.get(key)) !== owner) return false;
      await this.redis.pexpire(key, forMs);
      return true;
    };
    const release = async (owner: string): Promise<void> => {
      if ((await this.redis.get(key)) === owner) await this.redis.del(key);
    };
    /**
     * Renews the lock until the work has ended, and releases it then.
     * @param work its signal says that another owner has got the lock
     * @returns undefined when another owner has it from the start
     */
    async function whileHeld<Result>(
      owner: string,
      work: (lost: AbortSignal) => Promise<Result>,
    ): Promise<Result | undefined> {
      if (!(await claim(owner))) return undefined;
      const lost = new AbortController();
      const renew = async () => {
        if (!(await claim(owner))) lost.abort();
      };
      const renewing = setInterval(() => void renew().catch(() => {}), forMs / RENEWALS);
      try {
        return await work(lost.signal);
      } finally {
        clearInterval(renewing);
        await release(owner);
      }
    }
    return {
      /** Whether this owner has it now; to be called again before it ends. */
      claim,
      release,
      whileHeld,
    };
  }

  /** Whether this process is the one that may do something now; one may in this time, ms. */
  protected async claimFor(key: string, forMs: number): Promise<boolean> {
    return (await this.write("SET", key, "1", "PX", forMs, "NX")) === "OK";
  }
}
