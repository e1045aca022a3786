/** Checks the way to Redis, and what happens when its machine is lost. */
import type { Config } from "../config.ts";
import { counted } from "../ops/counted.ts";
import { describeRedis, isLocal, parseRedisUrl, type RedisUrl } from "../ops/redis-url.ts";
import type { RedisHealth } from "../state/redis-health.ts";
import { ok, warn, type Check } from "./check.ts";

const PAGE = "docs/operate.md, Redis";

const urlOf = ({ REDIS_URL }: Config): RedisUrl | undefined =>
  REDIS_URL === undefined ? undefined : parseRedisUrl(REDIS_URL);

export function checkConnection(config: Config): Check {
  const url = urlOf(config);
  if (url === undefined) return ok("redis connection", "the embedded Redis, on this machine");
  const where = describeRedis(url);
  if (url.tls) return ok("redis connection", `${where}, with TLS`);
  if (isLocal(url)) return ok("redis connection", `${where}, on this machine`);
  if (config.stateKeys.length > 0) {
    return ok("redis connection", `${where}, without TLS; payloads and events are encrypted`);
  }
  return warn(
    "redis connection",
    `${where}: without TLS and STATE_KEY, the network in between can read payloads and events`,
    `Use rediss:// (${PAGE}), or set STATE_KEY_FILE.`,
  );
}

/** No line where a single Redis is wanted. */
export function checkReplicas(config: Config, { replicas }: RedisHealth): Check[] {
  if (replicas > 0) {
    const says = `${counted(replicas, "replica has", "replicas have")} what the primary has`;
    return [ok("redis replicas", says)];
  }
  if ((urlOf(config)?.kind ?? "single") === "single") return [];
  return [
    warn(
      "redis replicas",
      "none follows the primary: when its machine is lost, accepted changes are lost",
      `Start a replica of it (${PAGE}), or find out why it does not follow: its log names the reason.`,
    ),
  ];
}
