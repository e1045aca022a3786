/** What one waiting change takes in Redis, by kind of key: of persons who have no text in common. */
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import { startDaemon, type startSandbox } from "../test/support/crmsync.ts";
import { ownRedis } from "../test/support/own-redis.ts";
import { personEvent } from "../test/support/person-event.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";

const COUNT = 100_000;
/** A quarter, so that the tables of Redis are as full. */
const COUNT_IN_BULK = COUNT / 4;
const BATCH = 500;
const DEADLINE_MS = 600_000;
const TARGET = 4096;

/** Kinds of keys, by what follows the prefix; each key is of the first kind that it matches. */
const KINDS = {
  "staged state": /^:staged:/,
  "place in the line, and since when": /^:(unsynced|line):/,
  "row of the ledger, with the pace": /^:ledger$/,
  /** Beside the staged state, which has the first step. */
  history: /^:history:/,
  "ids of events": /^:seen:/,
} as const;

const ALL = "all, of used_memory";
const AOF = "written to the append-only file";

/** Measured with the same persons before they were made smaller for the first time. */
const BEFORE: Readonly<Record<string, readonly [plain: number, sealed: number]>> = {
  [ALL]: [3491, 4071],
  "staged state": [1888, 2464],
  history: [272, 272],
  "ids of events": [75, 75],
  [AOF]: [5337, 6211],
};

type Service = Pick<Awaited<ReturnType<typeof startSandbox>>, "url" | "token">;

export async function runWaiting(service: Service): Promise<Table> {
  const plain = await measure(service, {}, "live", COUNT);
  const key = Buffer.alloc(32, 7).toString("base64");
  const sealed = await measure(service, { STATE_KEY: key }, "live", COUNT);
  const bulk = await measure(service, {}, "bulk", COUNT_IN_BULK);
  const rows = [...plain.keys()].map((what) => ({
    what,
    bytes: Math.round(plain.get(what) ?? 0),
    "lane bulk": Math.round(bulk.get(what) ?? 0),
    "with STATE_KEY": Math.round(sealed.get(what) ?? 0),
    before: BEFORE[what]?.[0] ?? "",
    "before, with STATE_KEY": BEFORE[what]?.[1] ?? "",
    target: what === ALL ? TARGET : "",
  }));
  const counts = `${COUNT} persons (${COUNT_IN_BULK} in the lane bulk)`;
  return { title: `A waiting change, by kind of key, each of ${counts}`, rows };
}

/** The warm-up and the value lists use up the quota: everything else waits. */
async function measure(
  { url, token }: Service,
  more: Record<string, string>,
  lane: string,
  count: number,
): Promise<Map<string, number>> {
  await using own = await ownRedis({ "auto-aof-rewrite-percentage": "0" });
  const prefix = "{bench}";
  await using daemon = await startDaemon({
    REDIS_URL: own.url,
    QUEUE_PREFIX: prefix,
    SERVICE_BASE_URL: url,
    SERVICE_TOKEN: token,
    QUOTA_PER_HOUR: "2",
    QUOTA_LIVE_RESERVE: "0",
    QUOTA_PACING: "burst",
    ...more,
  });
  const redis = new Redis(own.url);
  try {
    const isSpent = async () => (await daemon.metric("crmsync_quota_remaining")) === 0;
    await waitFor(isSpent, { what: "the quota is spent" });
    const push = async (from: number, to: number) => {
      for (let at = from; at < to; at += BATCH) {
        const batch = Array.from({ length: BATCH }, (_, n) => personOf(at + n, lane));
        const { status } = await daemon.push(batch);
        if (status !== 202) throw new Error(`/events answered ${status}`);
      }
      const wait = async () =>
        (await redis.zcard(`${prefix}:line:${lane}`)) === to &&
        (await redis.llen(`${prefix}:crm-events:active`)) === 0;
      await waitFor(wait, { deadlineMs: DEADLINE_MS, what: "all changes wait" });
    };
    // Scripts and connections have their room by now.
    await push(0, BATCH);
    const before = await totals(redis);
    await push(BATCH, BATCH + count);
    const after = await totals(redis);
    const sizes = await sizesByKind(redis, prefix, BATCH + count);
    return new Map([
      [ALL, (after.memory - before.memory) / count],
      ...sizes,
      [AOF, (after.aof - before.aof) / count],
    ]);
  } finally {
    redis.disconnect();
  }
}

async function sizesByKind(
  redis: Redis,
  prefix: string,
  count: number,
): Promise<[string, number][]> {
  const sums = new Map<string, number>(Object.keys(KINDS).map((kind) => [kind, 0]));
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", 1000);
    cursor = next;
    const sizes = await Promise.all(keys.map((key) => redis.memory("USAGE", key, "SAMPLES", 0)));
    for (const [index, key] of keys.entries()) {
      const name = key.slice(prefix.length);
      const kind = Object.entries(KINDS).find(([, pattern]) => pattern.test(name))?.[0];
      if (kind !== undefined) sums.set(kind, (sums.get(kind) ?? 0) + (sizes[index] ?? 0));
    }
  } while (cursor !== "0");
  return [...sums].map(([kind, bytes]) => [kind, bytes / count]);
}

async function totals(redis: Redis): Promise<{ memory: number; aof: number }> {
  const info = `${await redis.info("memory")}${await redis.info("persistence")}`;
  const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
  return { memory: read("used_memory"), aof: read("aof_current_size") };
}

const SYLLABLES =
  "ka to mi ru sel dan vor lin bas gre fen tol umi zar hep wex jo quin lyd ost".split(" ");

/** Each value is of its own, and the same in each run. */
function personOf(n: number, lane: string) {
  const digest = createHash("sha256").update(String(n)).digest();
  const byte = (at: number) => digest[at] ?? 0;
  const word = (at: number, length: number) => {
    const text = Array.from({ length }, (_, i) => SYLLABLES[byte(at + i) % SYLLABLES.length]).join(
      "",
    );
    return text.charAt(0).toUpperCase() + text.slice(1);
  };
  const country = ["LU", "DE", "FR", "BE", "PT"][byte(0) % 5];
  const [firstName, lastName] = [word(1, 2), word(3, 3)];
  const fields = {
    firstName,
    lastName,
    birthDate: `19${40 + (byte(6) % 60)}-0${1 + (byte(7) % 9)}-1${byte(8) % 10}`,
    countryOfResidence: country,
    nationality: country,
    address: `${byte(9)}, rue ${word(10, 3)}`,
    postalCode: `L-${1000 + byte(13) * 30}`,
    city: `${word(14, 2)}dange`,
    email: `${firstName}.${lastName}@${word(16, 2)}.example`.toLowerCase(),
    phoneNumber: `+352621${100_000 + digest.readUInt16BE(18) * 10}`,
    wealthSource: ["inheritance"],
  };
  const id = [digest.subarray(20, 24), digest.subarray(24, 26), digest.subarray(26, 32)]
    .map((part) => part.toString("hex"))
    .join("-");
  return personEvent(String(400_000 + n), fields, { id, lane });
}
