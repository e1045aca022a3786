/** Everything that a Redis holds, as text. DUMP would not do: it compresses values. */
import type { Redis } from "ioredis";

/** Key → its name and its whole value. @param prefix of the keys; "" for all. */
export async function textOfKeys(redis: Redis, prefix = ""): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  const match = `${prefix.replaceAll(/[[\]{}*?\\]/g, "\\$&")}*`;
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "MATCH", match, "COUNT", 1000);
    cursor = next;
    for (const key of keys) texts.set(key, [key, ...(await valuesOf(redis, key))].join("\n"));
  } while (cursor !== "0");
  return texts;
}

async function valuesOf(redis: Redis, key: string): Promise<string[]> {
  const type = await redis.type(key);
  switch (type) {
    case "string":
      return [(await redis.getBuffer(key))?.toString("latin1") ?? "", (await redis.get(key)) ?? ""];
    case "hash":
      // Redis may reorder a large hash or set between two readings.
      return Object.entries(await redis.hgetall(key))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .flat();
    case "list":
      return redis.lrange(key, 0, -1);
    case "set":
      return (await redis.smembers(key)).toSorted();
    case "zset":
      return redis.zrange(key, "0", "-1", "WITHSCORES");
    case "stream":
      return (await redis.xrange(key, "-", "+")).flat(2);
    case "none": // it has expired
      return [];
    default:
      throw new Error(`${key} has the unknown type ${type}`);
  }
}
