/** `crmsync redis`: what an operator does with the Redis of a tenant, whatever form REDIS_URL has. */
import { existsSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { resolve } from "node:path";
import { Command } from "commander";
import { readStateConfig } from "../base/config.ts";
import { connectOnce, connectOperator, redisUrlOf } from "../base/connect-redis.ts";
import { counted } from "../base/counted.ts";
import { crmsync } from "../base/command.ts";
import { isLocked } from "../base/data-dir.ts";
import { startEmbeddedRedis } from "../base/embedded-redis.ts";
import { printable, printableLines } from "../base/printable.ts";
import { describeRedis, parseRedisUrl } from "../base/redis-url.ts";
import { UserError } from "../base/user-error.ts";
import { copyKeys, deleteKeys, openCopy, ownKeys, restoreKeys } from "../core/state/state-copy.ts";
import { openStores, type Stores } from "../operate/status/stores.ts";
import { writeLastLines } from "../../workers/audit-trail.ts";
import { recordAct } from "./operator.ts";
import { printEither } from "./output.ts";

interface Options {
  readonly all?: true;
  readonly apply?: true;
  readonly force?: true;
  readonly json?: true;
  readonly move?: true;
}

const APPLY = ["--apply", "do it; without it, only print what would be done"] as const;
const FORCE = ["--force", "also while processes of crmsync run"] as const;
const JSON_OPTION = ["--json", "print as JSON"] as const;

export function redisCommand(): Command {
  const redis = new Command("redis")
    .description(
      "ask, copy, restore and reset the Redis that the daemon uses, whatever form REDIS_URL has",
    )
    .enablePositionalOptions();
  redis
    .command("ping")
    .description("whether it answers, what it is, and what of crmsync is in it")
    .option(...JSON_OPTION)
    .action(ping);
  redis
    .command("call")
    .description(
      "send one command to Redis, and print its answer; it has no line in the audit trail",
    )
    .argument("<command...>", "as: info persistence")
    .option(...JSON_OPTION)
    .passThroughOptions()
    .action(call);
  redis
    .command("backup")
    .description("copy all that crmsync keeps into a new file, as of one moment")
    .argument("<file>", "its name")
    .option("--move", "for good: after it no process works on this Redis any more")
    .option(...APPLY)
    .option(...FORCE)
    .option(...JSON_OPTION)
    .addHelpText(
      "after",
      `
Only --move needs --apply. While it copies, Redis takes no writes, and daemons wait.`,
    )
    .action(backup);
  redis
    .command("restore")
    .description("bring a copy into a Redis that has nothing of crmsync")
    .argument("<file>", "as backup has written it")
    .option(...APPLY)
    .option(...FORCE)
    .option(...JSON_OPTION)
    .action(restore);
  redis
    .command("reset")
    .description(
      "delete all that crmsync keeps, but the requests of the last hour and what waits for the audit trail",
    )
    .option("--all", "these, too, after the last lines of the trail: to uninstall crmsync")
    .option(...APPLY)
    .option(...FORCE)
    .option(...JSON_OPTION)
    .action(reset);
  return redis;
}

async function ping({ json }: Options): Promise<void> {
  const config = readStateConfig();
  const where = describeRedis(parseRedisUrl(await redisUrlOf(config)));
  const stores = openStores(config, await connectOnce(config));
  try {
    const before = performance.now();
    await stores.redis.ping();
    const pingMs = Math.round((performance.now() - before) * 10) / 10;
    const info = await stores.redis.info();
    const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
    const version = field("valkey_version") ?? field("redis_version") ?? "?";
    const role = field("role") ?? "?";
    const replicas = Number(field("connected_slaves") ?? 0);
    const state = await stores.stateVersion.read();
    const processes = (await stores.heartbeats.running()).map(({ id }) => id);
    const text = `${where} answers in ${pingMs} ms: version ${version}, ${role}, ${counted(replicas, "replica")}; state version ${state ?? "none"}, ${counted(processes.length, "process runs", "processes run")}`;
    printEither(
      json,
      { pingMs, version, role, replicas, stateVersion: state, processes },
      printable(text),
    );
  } finally {
    await stores.close();
  }
}

async function call([name = "", ...args]: readonly string[], { json }: Options): Promise<void> {
  const redis = await connectOnce(readStateConfig());
  try {
    const reply = await redis.call(name, ...args);
    printEither(json, reply, linesOf(reply).map(printableLines).join("\n"));
  } catch (error) {
    if ((error as Error).name !== "ReplyError") throw error;
    throw new UserError(`Redis answers: ${(error as Error).message}`);
  } finally {
    redis.disconnect();
  }
}

const linesOf = (reply: unknown): string[] =>
  Array.isArray(reply)
    ? reply.flatMap(linesOf)
    : [
        typeof reply === "string"
          ? reply.replaceAll("\r\n", "\n").trimEnd()
          : JSON.stringify(reply),
      ];

/** The embedded Redis runs only with its daemon: while that is stopped, it is started for the command. */
async function withRedis(work: (stores: Stores) => Promise<void>): Promise<void> {
  const config = readStateConfig();
  const isOwn = config.REDIS_URL === undefined && !isLocked(config.DATA_DIR);
  const log = { info() {}, error() {} };
  const own = isOwn ? await startEmbeddedRedis({ dataDir: config.DATA_DIR, log }) : undefined;
  try {
    const settings = own === undefined ? config : { ...config, REDIS_URL: own.url };
    const stores = openStores(settings, await connectOperator(settings));
    try {
      await work(stores).catch((error: Error) => {
        throw namesRight(error);
      });
    } finally {
      await stores.close();
    }
  } finally {
    await own?.close();
  }
}

/** What these commands run beyond deploy/redis/acl-rules.txt: the daemon needs none of it. */
const MORE_RIGHTS = "+scan +dump +restore +unlink +client|pause +client|unpause";

function namesRight(error: Error): Error {
  const [, denied] = /^NOPERM .*'(.+?)'/.exec(error.message) ?? [];
  return denied === undefined
    ? error
    : new UserError(
        `Redis does not let this user run ${denied}: allow it (ACL SETUSER NAME ${MORE_RIGHTS}), or name a user with these rights in REDIS_URL for this command`,
      );
}

/** @throws UserError that names the processes that run. */
async function requireStopped({ heartbeats }: Stores, { force }: Options): Promise<void> {
  const running = (await heartbeats.running()).map(({ id }) => id);
  if (running.length === 0 || force) return;
  throw new UserError(
    `${counted(running.length, "process", "processes")} of crmsync on this Redis: ${running.join(", ")}. Stop them first (one that was killed counts for half a minute), or give --force`,
  );
}

const backup = (name: string, options: Options): Promise<void> =>
  withRedis(async (stores) => {
    const { config, heartbeats, redis, stateVersion } = stores;
    const { QUEUE_PREFIX: prefix } = config;
    const { apply, json, move: moved = false } = options;
    const file = resolve(name);
    if (existsSync(file)) throw new UserError(`${file} is there already: name another file`);
    if (moved) await requireStopped(stores, options);
    const version = await stateVersion.beforeMove();
    if (version === undefined) throw new UserError(`nothing of crmsync is under ${prefix}`);
    if (!moved) await stateVersion.check();
    else if (!apply) {
      const count = await deleteKeys(redis, prefix, () => false, false);
      const says = `would copy ${counted(count, "key")} into ${file}, after which no process works on this Redis any more; give --apply to do it`;
      return printEither(json, { keys: count, applied: false }, printable(says));
    }
    await recordAct(stores, "redis.backup", { details: { file, moved } });
    const isUsed = (await heartbeats.running()).length > 0;
    if (moved) await stateVersion.move();
    const header = {
      file: "copy of crmsync's state 1",
      prefix,
      at: new Date().toISOString(),
      stateVersion: version,
      moved,
    } as const;
    const keys = await copyKeys(redis, file, header, isUsed).catch(async (error: unknown) => {
      // Without a copy, the state is here and nowhere else.
      if (moved) await stateVersion.set(version);
      throw error;
    });
    const next = moved
      ? `. This Redis is marked: no process works on it any more. Next: set REDIS_URL to the new one, then ${crmsync`redis restore ${file} --apply`}`
      : "";
    const says = `${counted(keys, "key")} copied into ${file}, which holds personal data${next}`;
    printEither(json, { keys, file, applied: true }, printable(says));
  });

const restore = (name: string, options: Options): Promise<void> =>
  withRedis(async (stores) => {
    const { config, redis, stateVersion } = stores;
    const { QUEUE_PREFIX: prefix } = config;
    const { apply = false, json } = options;
    const copy = await openCopy(resolve(name));
    const { header, keys } = copy;
    if (header.prefix !== prefix) {
      throw new UserError(`the copy is of QUEUE_PREFIX ${header.prefix}, and here it is ${prefix}`);
    }
    stateVersion.refuse(header.stateVersion);
    await requireStopped(stores, options);
    for await (const found of ownKeys(redis, prefix)) {
      const other = found.find((key) => !isKept(nameIn(key, prefix)) && !isMeta(key));
      if (other === undefined) continue;
      throw new UserError(
        `this Redis has keys of ${prefix} already, such as ${other.toString()}: delete them first (${crmsync`redis reset --apply`})`,
      );
    }
    const what = `${counted(keys, "key")} of ${header.at}`;
    if (!apply) {
      return printEither(
        json,
        { keys, applied: false },
        `would bring ${what}; give --apply to do it`,
      );
    }
    await restoreKeys(redis, copy, (key) => isKept(nameIn(key, prefix)));
    await stateVersion.set(header.stateVersion);
    await recordAct(stores, "redis.restore", { details: { file: resolve(name), of: header.at } });
    const next = header.moved
      ? ""
      : `. It is older than the service: ${crmsync`ledger forget --apply`}`;
    printEither(json, { keys, applied: true }, `${what} restored${next}`);
  });

const nameIn = (key: Buffer, prefix: string): string => key.toString().slice(prefix.length + 1);

/** What the service counts, and evidence, outlive the state. */
const isKept = (name: string): boolean => /^(?:quota|audit):/.test(name);

/** BullMQ writes it for each queue that is opened, also by a command. */
const isMeta = (key: Buffer): boolean => key.toString().endsWith(":meta");

const reset = (options: Options): Promise<void> =>
  withRedis(async (stores) => {
    const { config, redis } = stores;
    const { all = false, apply = false, json } = options;
    await requireStopped(stores, options);
    if (apply) await recordAct(stores, "redis.reset", { details: { all } });
    if (apply && all) await writeLastLines(stores);
    const keys = await deleteKeys(
      redis,
      config.QUEUE_PREFIX,
      (name) => !all && isKept(name),
      apply,
    );
    const says = apply
      ? `${counted(keys, "key")} deleted`
      : `would delete ${counted(keys, "key")}; give --apply to do it`;
    printEither(json, { keys, applied: apply }, says);
  });
