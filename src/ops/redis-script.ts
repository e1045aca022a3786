/**
 * Lua scripts that Redis runs, each from a file of its own. A script takes in another file with
 * BullMQ's syntax, on a line of its own, relative to the including file:
 *
 *     --- @include "../../ops/lua/now.lua"
 */
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Redis } from "ioredis";

/** Runs one script. Redis runs each script alone: no other command comes between its steps. */
export type RedisScript<Reply> = (
  keys: readonly string[],
  args?: readonly (string | number)[],
) => Promise<Reply>;

type Command = (keyCount: number, ...keysAndArgs: (string | number)[]) => Promise<unknown>;

/** Script texts with their includes, by address: read once per process. */
const texts = new Map<string, string>();

/**
 * Makes the script of a Lua file callable on one client. ioredis sends its hash, and the text only
 * when Redis does not know the hash.
 * @param file as `new URL("./lua/stage.lua", import.meta.url)`.
 */
export function redisScript<Reply>(redis: Redis, file: URL): RedisScript<Reply> {
  const text = texts.get(file.href) ?? readScript(file);
  texts.set(file.href, text);
  const name = commandName(file);
  redis.defineCommand(name, { lua: text });
  return async (keys, args = []) => {
    const command = (redis as unknown as Record<string, Command>)[name] as Command;
    return (await command.call(redis, keys.length, ...keys, ...args)) as Reply;
  };
}

/** The text of a script with its includes expanded, each at its first mention only. */
export function readScript(file: URL, included: Set<string> = new Set()): string {
  return readFileSync(file, "utf8").replaceAll(INCLUDE, (_, path: string) => {
    const other = new URL(path, file);
    if (included.has(other.href)) return "";
    included.add(other.href);
    return readScript(other, included).trimEnd();
  });
}

const INCLUDE = /^--- @include "(.+)"$/gm;

/** `src/state/lua/stage.lua` becomes `crmsync:state/stage`. */
function commandName(file: URL): string {
  const path = fileURLToPath(file);
  return `crmsync:${basename(dirname(dirname(path)))}/${basename(path, ".lua")}`;
}
