/** The one place that opens connections to the Redis of a tenant, whatever form its URL has. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { connectorTo, primariesOfCluster, primaryOf, type FindPrimary } from "./redis-primary.ts";
import { WorkRedis } from "./redis-script.ts";
import type { RedisTls } from "./redis-tls.ts";
import { describeRedis, parseRedisUrl, wrongForm, type RedisUrl } from "./redis-url.ts";
import { isSelectRefused, selectRefused, TenantRedis, type ClientOptions } from "./tenant-redis.ts";
import { UserError } from "./user-error.ts";

export interface RedisTarget {
  readonly url: string;
  /** QUEUE_PREFIX: its hash tag decides which node of a Cluster is ours. */
  readonly prefix: string;
  readonly tls?: RedisTls | undefined;
}

/**
 * A command without an answer for this long is sent again on a new connection, ms: the machine of the
 * former primary may be gone without closing its connections. Longer than any blocking command waits.
 */
const NO_ANSWER_MS = 20_000;

const LONGEST_RETRY_PAUSE_MS = 1000;

/** Another server has our keys now, or will in a moment. */
const MOVED =
  /^(?:MOVED|ASK|CLUSTERDOWN|TRYAGAIN|MASTERDOWN)\b|READONLY You can't write against a read only/;

export const openRedis = (target: RedisTarget, options: ClientOptions = {}): Redis =>
  new TenantRedis(optionsOf(target, options));

export const openWorkRedis = (target: RedisTarget, options: ClientOptions = {}): WorkRedis =>
  new WorkRedis(optionsOf(target, { maxRetriesPerRequest: null, ...options }));

/**
 * Finds out the version of Redis before the first script of this process; gives up at the deadline.
 * @throws UserError when the URL has the wrong form for this Redis, or a database that it refuses.
 */
export async function meetRedis(target: RedisTarget, deadlineMs: number): Promise<void> {
  const redis = openWorkRedis(target);
  // Other errors are reported by the clients that are opened next.
  const refused = new Promise<Error>((resolve) => {
    redis.on("error", (error) => isSelectRefused(error) && resolve(error));
  });
  const met = await Promise.race([redis.met, refused, sleep(deadlineMs, "", { ref: false })]);
  redis.disconnect();
  const url = parseRedisUrl(target.url);
  if (met instanceof Error) throw new UserError(selectRefused(describeRedis(url), url.db, met));
  const problem = wrongForm(url, met);
  if (problem !== undefined)
    throw new UserError(`${describeRedis(url)} cannot be used: ${problem}`);
}

/** @throws RedisUrlError */
function optionsOf(
  target: RedisTarget,
  options: ClientOptions,
  find: FindPrimary = findOf(target),
): ClientOptions {
  const url = parseRedisUrl(target.url);
  const { username, password, db } = url;
  const tls = tlsOf(url, target);
  return {
    username,
    password,
    db,
    ...(tls && { tls }),
    // Behind one address the primary may change, too: at a provider, or after a restart with another role.
    Connector: connectorTo(find, url, tls),
    reconnectOnError: ({ message }) => (MOVED.test(message) ? 2 : false),
    retryStrategy: (times) => Math.min(times * 50, LONGEST_RETRY_PAUSE_MS),
    socketTimeout: NO_ANSWER_MS,
    ...options,
  };
}

/**
 * Opens a connection to each primary, for what is read from all of them: in a Cluster, a node knows
 * only its own keys. One try only.
 * @param redis a connection to one of them.
 */
export async function openPrimaries(target: RedisTarget, redis: Redis): Promise<Redis[]> {
  const url = parseRedisUrl(target.url);
  const [named] = url.nodes;
  if (url.kind !== "cluster" || named === undefined) return [quiet(openRedis(target, ONE_TRY))];
  return (await primariesOfCluster(redis, named)).map((node) =>
    quiet(new TenantRedis(optionsOf(target, ONE_TRY, async () => node))),
  );
}

const ONE_TRY: ClientOptions = {
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
  reconnectOnError: null,
};

/** Ignores the connection's own error events: each command reports its error. */
const quiet = (redis: Redis): Redis => redis.on("error", () => {});

const tlsOf = ({ tls }: RedisUrl, target: RedisTarget): RedisTls | undefined =>
  tls ? (target.tls ?? {}) : undefined;

/** One per target: all connections of a process share the search for the primary. */
const finders = new WeakMap<RedisTarget, FindPrimary>();

function findOf(target: RedisTarget): FindPrimary {
  const find = finders.get(target) ?? finderOf(target);
  finders.set(target, find);
  return find;
}

function finderOf(target: RedisTarget): FindPrimary {
  const url = parseRedisUrl(target.url);
  const { kind, nodes, socket } = url;
  const [only] = socket === undefined ? nodes : [{ path: socket }];
  if (kind === "single" && only !== undefined) return async () => only;
  return primaryOf(url, target.prefix, tlsOf(url, target));
}
