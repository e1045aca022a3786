/** Writes to Redis as one step, if what the writes rest on has not changed since it was read. */
import type { Redis } from "ioredis";
import { redisScript } from "../ops/redis-script.ts";

/** A command, its key, and its arguments after the key. */
export type Call = readonly [command: string, key: string, ...args: readonly (string | number)[]];

/** A command, and last what it must still reply; "": nothing. */
export type Check = Call;

/**
 * @param now of the steps of a history, ms; absent: Redis' time
 * @returns whether it was done; if not, a check has failed, and nothing was written.
 */
export type Commit = (
  checks: readonly Check[],
  calls: readonly Call[],
  now?: number,
) => Promise<boolean>;

/** Commands that free memory: a Redis that is full lets a script go on after them. */
const FREES = /^(?:DEL|HDEL|ZREM|SREM)$/;

export function committer(redis: Redis): Commit {
  const script = redisScript<number>(redis, new URL("./lua/commit.lua", import.meta.url));
  return async (checks, calls, now) => {
    const all: Call[] = [
      ...checks,
      ...calls.filter(([command]) => FREES.test(command)),
      ...calls.filter(([command]) => !FREES.test(command)),
    ];
    const keys = all.map(([, key]) => key);
    const args = all.flatMap(([command, , ...rest]) => [rest.length + 1, command, ...rest]);
    return (await script(keys, [checks.length, now ?? "", ...args])) === 1;
  };
}

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
