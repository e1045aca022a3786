/** Reads a large hash or sorted set a page at a time, so that Redis serves others in between. */
import type { Redis } from "ioredis";

type Pairs = [name: string, value: string][];

/** Fields and values of a hash; a field that is written meanwhile may come twice. @param count in a page, about */
export const scanHash = (redis: Redis, key: string, count: number): AsyncGenerator<Pairs> =>
  pages((cursor) => redis.hscan(key, cursor, "COUNT", count));

/** Members and scores of a sorted set, as `scanHash`. */
export const scanSorted = (redis: Redis, key: string, count: number): AsyncGenerator<Pairs> =>
  pages((cursor) => redis.zscan(key, cursor, "COUNT", count));

/** Names of all keys that begin so, some at a time; none where Redis has looked at others. */
export async function* scanKeys(redis: Redis, start: string): AsyncGenerator<string[]> {
  const match = `${start.replaceAll(/[[\]*?\\]/g, "\\$&")}*`;
  let cursor = "0";
  do {
    const [next, found] = await redis.scan(cursor, "MATCH", match, "COUNT", 1000);
    cursor = next;
    yield found;
  } while (cursor !== "0");
}

async function* pages(
  read: (cursor: string) => Promise<[cursor: string, flat: string[]]>,
): AsyncGenerator<Pairs> {
  let cursor = "0";
  do {
    const [next, flat] = await read(cursor);
    cursor = next;
    if (flat.length > 0) yield pairsOf(flat);
  } while (cursor !== "0");
}

/** Of what Redis returns as name, value, name, value, … */
export const pairsOf = <T>(flat: readonly T[]): [T, T][] =>
  flat.flatMap((one, index) => (index % 2 === 0 ? [[one, flat[index + 1] as T]] : []));
