/** Chapter "memory": what a waiting change, a known relation and the like take in Redis. */
import { Redis } from "ioredis";
import { Inbox } from "../src/core/event/inbox.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../test/support/crmsync.ts";
import type { DaemonProcess } from "../test/support/crmsync.ts";
import { personEvent } from "../test/support/person-event.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";
import { runWaiting } from "./waiting.ts";
import { usedBytes } from "./used-bytes.ts";

const COUNT = 1000;
const BATCH = 500;
const DEADLINE_MS = 300_000;

type Service = Pick<Awaited<ReturnType<typeof startSandbox>>, "url" | "token">;

export async function runMemory(redisUrl: string): Promise<readonly Table[]> {
  await using sandbox = await startSandbox();
  const redis = new Redis(redisUrl);
  try {
    const rows = [
      row("an event in the inbox", await measureInbox(redis)),
      ...(await measureWaiting(redis, redisUrl, sandbox)),
      ...(await measureSettled(redis, redisUrl, sandbox)),
    ];
    const title = `Memory of Redis, each of ${COUNT}, payloads of ${PAYLOAD_BYTES} bytes`;
    return [await runWaiting(sandbox), { title, rows }];
  } finally {
    redis.disconnect();
  }
}

const envFor = (redisUrl: string, { url, token }: Service, perHour: number) => ({
  REDIS_URL: redisUrl,
  QUEUE_PREFIX: `{bench-${process.pid}-${perHour}-${Date.now()}}`,
  SERVICE_BASE_URL: url,
  SERVICE_TOKEN: token,
  QUOTA_PER_HOUR: String(perHour),
  QUOTA_LIVE_RESERVE: "0",
  QUOTA_PACING: "burst",
  QUOTA_BURST: "1000",
  QUOTA_BURST_MS: "100",
});

/** No daemon runs. */
async function measureInbox(redis: Redis): Promise<number> {
  const inbox = new Inbox(redis, `{bench-${process.pid}-inbox}`);
  const before = await usedBytes(redis);
  await inbox.push(Array.from({ length: COUNT }, (_, n) => eventOf(`i${n}`, "Ada")));
  const after = await usedBytes(redis);
  await inbox.close();
  return (after - before) / COUNT;
}

/** A quota that the warm-up and the value lists use up: everything else waits. */
async function measureWaiting(redis: Redis, redisUrl: string, service: Service) {
  const env = envFor(redisUrl, service, 2);
  const key = (name: string) => `${env.QUEUE_PREFIX}:${name}`;
  await using daemon = await startDaemon(env);
  const isSpent = async () => (await daemon.metric("crmsync_quota_remaining")) === 0;
  await waitFor(isSpent, { what: "the quota is spent" });
  const before = await usedBytes(redis);
  await pushAll(daemon, (n) => eventOf(`c${n}`, "Ada"));
  const wait = async () =>
    (await redis.zcard(key("unsynced:live"))) === COUNT &&
    (await redis.llen(key("crm-events:active"))) === 0;
  await waitFor(wait, { deadlineMs: DEADLINE_MS, what: "all changes wait" });
  const change = ((await usedBytes(redis)) - before) / COUNT;
  await pushAll(daemon, (n) => eventOf(`d${n}`, ""));
  const areDead = async () => (await redis.hlen(key("dead-letters"))) === COUNT;
  await waitFor(areDead, { deadlineMs: DEADLINE_MS, what: "all dead letters" });
  return [
    row("a waiting change", change),
    row("a dead letter", await eachOf(redis, key("dead-letters"))),
  ];
}

async function measureSettled(redis: Redis, redisUrl: string, service: Service) {
  const env = envFor(redisUrl, service, 1_000_000);
  await using daemon = await startDaemon(env);
  await pushAll(daemon, (n) => eventOf(`s${n}`, "Ada"));
  await waitUntilSettled(daemon, DEADLINE_MS);
  return [row("a relation in the ledger", await eachOf(redis, `${env.QUEUE_PREFIX}:ledger`))];
}

const row = (what: string, bytes: number) => ({ what, bytes: Math.round(bytes) });

const eventOf = (crmCode: string, firstName: string) =>
  personEvent(crmCode, {
    firstName,
    birthDate: "1979-03-04",
    countryOfResidence: "LU",
    nationality: "LU",
    address: "14, rue des Vignes",
    postalCode: "L-2345",
    city: "Luxembourg",
    email: `ada.muster.${crmCode}@example.com`,
    phoneNumber: "+352621555014",
    wealthSource: ["inheritance"],
  });

const PAYLOAD_BYTES = JSON.stringify(
  (eventOf("c100", "Ada")["data"] as { record: unknown }).record,
).length;

async function pushAll(daemon: DaemonProcess, make: (n: number) => unknown): Promise<void> {
  for (let from = 0; from < COUNT; from += BATCH) {
    const response = await daemon.push(Array.from({ length: BATCH }, (_, n) => make(from + n)));
    if (response.status !== 202) throw new Error(`/events answered ${response.status}`);
  }
}

/** Of a hash with COUNT fields or more. */
const eachOf = async (redis: Redis, key: string): Promise<number> =>
  ((await redis.memory("USAGE", key, "SAMPLES", 0)) ?? 0) / (await redis.hlen(key));
