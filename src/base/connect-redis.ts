import { crmsync } from "./command.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { diskText, isLocked } from "./data-dir.ts";
import { within } from "./deadline.ts";
import { findEmbeddedRedis } from "./embedded-redis.ts";
import { openRedis, openWorkRedis, type RedisTarget } from "./open-redis.ts";
import type { RedisTls } from "./redis-tls.ts";
import { describeRedis, parseRedisUrl, wrongForm, type RedisUrl } from "./redis-url.ts";
import { resolveName } from "./resolve-name.ts";
import { isSelectRefused, selectRefused, type ClientOptions } from "./tenant-redis.ts";
import { UserError } from "./user-error.ts";

const RUNBOOK = "docs/runbook.md#crmsyncredisaway";

/** How long a command waits for each answer of a Redis on a busy machine, ms. */
const WAIT_MS = 10_000;

interface RedisSettings {
  readonly REDIS_URL?: string | undefined;
  readonly QUEUE_PREFIX: string;
  readonly DATA_DIR: string;
  readonly redisTls: RedisTls;
}

/** @param url of the Redis that this process uses: REDIS_URL, or that of the embedded one. */
export const redisTarget = (
  { QUEUE_PREFIX, redisTls }: Pick<RedisSettings, "QUEUE_PREFIX" | "redisTls">,
  url: string,
): RedisTarget => ({ url, prefix: QUEUE_PREFIX, tls: redisTls });

/**
 * The URL of the Redis that the daemon uses.
 * @throws UserError that says what to do.
 */
export async function redisUrlOf({
  REDIS_URL,
  DATA_DIR,
}: Pick<RedisSettings, "REDIS_URL" | "DATA_DIR">): Promise<string> {
  const url = REDIS_URL ?? (await embeddedUrl(DATA_DIR));
  if (url === undefined) throw new UserError(await whyNoRedis(DATA_DIR));
  return url;
}

/**
 * Like `connectOnce`, for commands that act: their scripts also run while Redis' memory is at its limit.
 * @throws UserError that says what to do.
 */
export async function connectOperator(settings: RedisSettings): Promise<Redis> {
  const redis = await connectWith(openWorkRedis, settings, () => WAIT_MS);
  try {
    await within(WAIT_MS, redis.met);
    return redis;
  } catch (error) {
    redis.disconnect();
    throw error;
  }
}

/**
 * Connects a command to the Redis that the daemon uses. One try only: a person waits for the answer.
 * @param waitMs how long each answer may take from now on, ms.
 * @throws UserError that says what to do.
 */
export const connectOnce = (
  settings: RedisSettings,
  waitMs: () => number = () => WAIT_MS,
): Promise<Redis> => connectWith(openRedis, settings, waitMs);

async function connectWith<Client extends Redis>(
  open: (target: RedisTarget, options: ClientOptions) => Client,
  settings: RedisSettings,
  waitMs: () => number,
): Promise<Client> {
  const url = await redisUrlOf(settings);
  const parsed = parseRedisUrl(url);
  const where = describeRedis(parsed);
  const redis = open(redisTarget(settings, url), {
    maxRetriesPerRequest: null,
    lazyConnect: true,
    // The ready check would wait until Redis has loaded its data.
    enableReadyCheck: false,
    retryStrategy: () => null,
    // A replica's refusal of a write would close the connection under all other commands.
    reconnectOnError: null,
  });
  // The connection's error names the cause; the error of connect() only says that it is closed.
  let cause: Error | undefined;
  redis.on("error", (error: Error) => (cause ??= error));
  try {
    // A connection attempt cannot be aborted during its DNS lookup.
    if (parsed.kind === "single") {
      await Promise.all(parsed.nodes.map(({ host }) => resolveName(host, waitMs())));
    }
    await within(waitMs(), connect(redis, parsed));
    return redis;
  } catch (error) {
    redis.disconnect();
    if (isSelectRefused(cause)) throw new UserError(selectRefused(where, parsed.db, cause));
    const { message } = cause ?? (error as Error);
    throw new UserError(
      /^(?:NOAUTH|WRONGPASS|NOPERM)\b/.test(message)
        ? `${where} refuses the login: ${message}; correct user name and password in REDIS_URL`
        : `${where} cannot be reached: ${message}; see ${RUNBOOK}`,
    );
  }
}

async function connect(redis: Redis, url: RedisUrl): Promise<void> {
  await redis.connect();
  // The ACL of Redis may forbid INFO.
  const info = await redis.info().catch(onlyDenied);
  const problem = wrongForm(url, info);
  if (problem !== undefined) throw new Error(problem);
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
  if (field("loading") !== "1") return;
  const loaded = Math.floor(Number(field("loading_loaded_perc") ?? 0));
  const left = field("loading_eta_seconds") ?? "?";
  throw new Error(`it reads its data from the disk (${loaded} % done, about ${left} s left)`);
}

function onlyDenied(error: Error): string {
  if (error.message.startsWith("NOPERM")) return "";
  throw error;
}

/** @throws UserError when this user may not read the folder, because the daemon runs as another user. */
async function embeddedUrl(dataDir: string): Promise<string | undefined> {
  try {
    return await findEmbeddedRedis(dataDir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
    throw new UserError(
      `DATA_DIR ${dataDir} cannot be read by this user (EACCES): run the command as the daemon's user, or set REDIS_URL to the Redis that it uses`,
    );
  }
}

/** Distinguishes no daemon at all from a daemon whose redis-server is down. */
async function whyNoRedis(dataDir: string): Promise<string> {
  if (!isLocked(dataDir)) {
    return `no daemon is running on DATA_DIR ${dataDir}: start one (${crmsync`start`}), or set REDIS_URL to the Redis that it uses`;
  }
  const pid = (await readFile(join(dataDir, "daemon.pid"), "utf8").catch(() => "")).trim();
  const log = join(dataDir, "redis", "redis.log");
  const said = (await readFile(log, "utf8").catch(() => "")).trimEnd().split("\n").slice(-3);
  const lines = said.map((line) => `\n  ${line}`).join("");
  return `the daemon ${pid} runs on DATA_DIR ${dataDir}, but its redis-server does not answer${await diskText(dataDir)}; see ${RUNBOOK}. The end of ${log}:${lines}`;
}
