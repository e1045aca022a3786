/** Checks the way to Redis, what happens when its machine is lost, and Redis itself: version, settings, clock, speed. */
import type { Redis } from "ioredis";
import type { Config } from "../../base/config.ts";
import { crmsync } from "../../base/command.ts";
import { counted } from "../../base/counted.ts";
import { describeRedis, isLocal, parseRedisUrl, type RedisUrl } from "../../base/redis-url.ts";
import { isOlder } from "../../base/version.ts";
import type { RedisHealth } from "../../core/state/redis-health.ts";
import { SLOW_PING_MS } from "../status/process-findings.ts";
import type { Readings } from "../status/readings.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { clockCheck } from "./clock.ts";

/** The oldest version that BullMQ and our scripts work with. */
const OLDEST_REDIS = "6.2";

interface AskedOfRedis {
  /** How far its clock is ahead of this machine's; negative: behind. */
  readonly aheadMs: number;
  /** Its setting `appendfsync`, and `slowlog-log-slower-than`; undefined when Redis does not say it. */
  readonly fsync: string | undefined;
  readonly slowerThan: string | undefined;
}

export function checkRedis(
  config: Config,
  { redis, pingMs }: Readings,
  { aheadMs, fsync, slowerThan }: AskedOfRedis,
): Check[] {
  return [
    checkConnection(config),
    checkSpeed(pingMs),
    isOlder(redis.version, OLDEST_REDIS)
      ? fail("redis version", redis.version, `Use Redis ${OLDEST_REDIS} or newer.`)
      : ok("redis version", redis.version),
    redis.role === "master"
      ? ok("redis role", "primary")
      : fail("redis role", "a replica, which accepts no writes", "Point REDIS_URL at the primary."),
    redis.evictionPolicy === "noeviction"
      ? ok("redis policy", "noeviction")
      : fail(
          "redis policy",
          `maxmemory-policy is ${redis.evictionPolicy}: Redis may delete changes`,
          `${crmsync`redis call config set maxmemory-policy noeviction`}, and put it into redis.conf.`,
        ),
    checkDurability(redis.appendOnly, fsync),
    ...checkReplicas(config, redis),
    ...checkSlowLog(config, slowerThan),
    clockCheck("clock, redis", aheadMs, pingMs / 2),
  ];
}

function checkDurability(appendOnly: boolean, fsync: string | undefined): Check {
  const name = "redis durability";
  if (!appendOnly) {
    const says = "appendonly is off: a crash of Redis loses accepted changes";
    const remedy = `${crmsync`redis call config set appendonly yes`}, and put it into redis.conf.`;
    return fail(name, says, remedy);
  }
  if (fsync === undefined) {
    return ok(name, "append-only file is on; whether appendfsync is always is not known here");
  }
  const says = `appendfsync is ${fsync}: a power failure may lose the changes accepted last`;
  return fsync === "always"
    ? ok(name, "append-only file is on, and written before it answers")
    : warn(
        name,
        says,
        `${crmsync`redis call config set appendfsync always`}, and put it into redis.conf.`,
      );
}

/** Undefined where Redis' access list or its provider does not allow the question. */
export async function settingOf(redis: Redis, name: string): Promise<string | undefined> {
  const [, value] = (await redis.config("GET", name).catch(() => [])) as string[];
  return value;
}

/** A line only where values of persons are kept. The embedded Redis has no slow log. */
function checkSlowLog({ stateKeys }: Config, slowerThan: string | undefined): Check[] {
  if (stateKeys.length > 0 || slowerThan === undefined || Number(slowerThan) < 0) return [];
  const says = "Redis keeps the arguments of slow commands, among them values of persons";
  const off = crmsync`redis call config set slowlog-log-slower-than -1`;
  const remedy = `${off}, put it into redis.conf, then ${crmsync`redis call slowlog reset`}; or set STATE_KEY_FILE.`;
  return [warn("redis slow log", says, remedy)];
}

function checkSpeed(pingMs: number): Check {
  const says = `Redis answers in ${pingMs < 1 ? "less than 1" : Math.round(pingMs)} ms`;
  return pingMs > SLOW_PING_MS
    ? warn(
        "redis speed",
        `${says}: each change needs several answers, so changes are sent slowly`,
        `Run crmsync on a machine near Redis, or find out what keeps Redis busy: ${crmsync`redis call slowlog get`}.`,
      )
    : ok("redis speed", says);
}

const PAGE = "docs/operate.md, Redis";

const urlOf = ({ REDIS_URL }: Config): RedisUrl | undefined =>
  REDIS_URL === undefined ? undefined : parseRedisUrl(REDIS_URL);

function checkConnection(config: Config): Check {
  const url = urlOf(config);
  if (url === undefined) return ok("redis connection", "the embedded Redis, on this machine");
  const where = describeRedis(url);
  if (url.tls) return ok("redis connection", `${where}, with TLS`);
  if (isLocal(url)) return ok("redis connection", `${where}, on this machine`);
  if (config.stateKeys.length > 0) {
    return ok("redis connection", `${where}, without TLS; payloads and events are encrypted`);
  }
  const says = `${where}: without TLS and STATE_KEY, the network in between can read payloads and events`;
  const remedy = `Use rediss:// (${PAGE}), or set STATE_KEY_FILE.`;
  return warn("redis connection", says, remedy);
}

/** No line where a single Redis is wanted. */
function checkReplicas(config: Config, { replicas }: RedisHealth): Check[] {
  if (replicas > 0) {
    const says = `${counted(replicas, "replica has", "replicas have")} what the primary has`;
    return [ok("redis replicas", says)];
  }
  if ((urlOf(config)?.kind ?? "single") === "single") return [];
  const says = "none follows the primary: when its machine is lost, accepted changes are lost";
  const remedy = `Start a replica of it (${PAGE}), or find out why it does not follow: its log names the reason.`;
  return [warn("redis replicas", says, remedy)];
}
