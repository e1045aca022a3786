/**
 * Lua scripts that Redis runs, each from a file of its own. A script takes in another file with
 * BullMQ's syntax, on a line of its own, relative to the including file:
 *
 *     --- @include "../../../base/lua/now.lua"
 */
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Redis } from "ioredis";
import { TenantRedis, type ClientOptions } from "./tenant-redis.ts";

/** Runs one script. Redis runs each script alone: no other command comes between its steps. */
export type RedisScript<Reply> = (
  keys: readonly string[],
  args?: readonly ScriptArgument[],
) => Promise<Reply>;

type ScriptArgument = string | number;

type Command = (keyCount: number, ...keysAndArgs: ScriptArgument[]) => Promise<unknown>;

/**
 * Redis 7 and newer run a script with this first line even while their memory is at its limit. The
 * work that frees memory needs some memory itself.
 */
const AT_THE_LIMIT = "#!lua flags=allow-oom\n";
const FLAGS_SINCE = 7;

/** Commands that Redis rejects at its memory limit; a script without them needs no flag. */
const NEEDS_MEMORY =
  /["'](?:set|h(?:m?set|setnx|incrby|incrbyfloat)|incr|z(?:add|incrby)|[lr]push|rpoplpush|linsert|sadd|xadd|pfadd)["']|call\((?:ARGV|unpack)/i;

type Definition = Parameters<Redis["defineCommand"]>[1];

/** Whether a Redis of this version can run scripts while its memory is at its limit. */
export const runsAtLimit = (version: string): boolean => Number.parseInt(version) >= FLAGS_SINCE;

/**
 * The client of the daemon's own work. Its scripts, BullMQ's among them, also run while Redis'
 * memory is at its limit, so that a full Redis drains. Intake over HTTP must not use it.
 */
export class WorkRedis extends TenantRedis {
  /** What the last client of this process found; the next client begins with it. */
  static #lastAtLimit = false;
  /** Resolves with the server's reply to INFO, once its version is known. */
  readonly met: Promise<string>;
  readonly #definitions = new Map<string, Definition>();
  #atLimit = WorkRedis.#lastAtLimit;
  #corked: Redis["stream"] | undefined;

  constructor(options: ClientOptions) {
    super(options);
    const { promise, resolve } = Promise.withResolvers<string>();
    this.met = promise;
    // Each connection may lead to another server.
    this.on("ready", () => void this.#meet().then(resolve, () => {}));
  }

  override defineCommand(name: string, definition: Definition): void {
    this.#definitions.set(name, definition);
    const flagged = this.#atLimit && NEEDS_MEMORY.test(definition.lua);
    const lua = flagged ? AT_THE_LIMIT + definition.lua : definition.lua;
    super.defineCommand(name, { ...definition, lua });
  }

  /** Commands that are sent at the same time leave in one write: each write costs both ends time. */
  override sendCommand(...args: Parameters<Redis["sendCommand"]>): unknown {
    const { stream } = this;
    if (stream !== undefined && stream !== this.#corked) {
      this.#corked = stream;
      stream.cork();
      process.nextTick(() => {
        this.#corked = undefined;
        stream.uncork();
      });
    }
    return super.sendCommand(...args);
  }

  async #meet(): Promise<string> {
    const info = await this.info("server");
    const [, version = ""] = /^redis_version:(\S+)/m.exec(info) ?? [];
    WorkRedis.#lastAtLimit = runsAtLimit(version);
    if (WorkRedis.#lastAtLimit === this.#atLimit) return info;
    this.#atLimit = WorkRedis.#lastAtLimit;
    for (const [name, definition] of this.#definitions) this.defineCommand(name, definition);
    return info;
  }
}

/** A command that writes or reads, its key, and its arguments after the key. */
type Write = readonly [command: string, key: string, ...args: readonly (string | number)[]];

/**
 * Runs commands as one step. On the client above they also run at the memory limit, where Redis
 * refuses every transaction (MULTI), even one that only reads or deletes.
 * @returns their replies.
 */
export function redisWrites(redis: Redis): (commands: readonly Write[]) => Promise<unknown[]> {
  const script = redisScript<unknown[]>(redis, new URL("./lua/write.lua", import.meta.url));
  return (commands) =>
    script(
      commands.map(([, key]) => key),
      commands.flatMap(([command, , ...args]) => [args.length + 1, command, ...args]),
    );
}

/** As `redisWrites`, for one command. */
export function redisWrite(redis: Redis): (...command: Write) => Promise<unknown> {
  const write = redisWrites(redis);
  return async (...command) => (await write([command]))[0];
}

/** Script texts with their includes, by address: read once per process. */
const texts = new Map<string, string>();

/**
 * Makes the script of a Lua file callable on one client. ioredis sends its hash, and the text only
 * when Redis does not know the hash.
 * @param file as `new URL("./lua/stage.lua", import.meta.url)`.
 */
export function redisScript<Reply>(redis: Redis, file: URL): RedisScript<Reply> {
  const name = commandName(file);
  redis.defineCommand(name, { lua: scriptText(file) });
  return async (keys, args = []) => {
    const command = (redis as unknown as Record<string, Command>)[name] as Command;
    return (await command.call(redis, keys.length, ...keys, ...args)) as Reply;
  };
}

/** The text of a script, read from its file once. */
export function scriptText(file: URL): string {
  const text = texts.get(file.href) ?? readScript(file);
  texts.set(file.href, text);
  return text;
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

/** `src/core/state/lua/stage.lua` becomes `crmsync:state/stage`. */
function commandName(file: URL): string {
  const path = fileURLToPath(file);
  return `crmsync:${basename(dirname(dirname(path)))}/${basename(path, ".lua")}`;
}
