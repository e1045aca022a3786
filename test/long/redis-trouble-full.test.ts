import { randomBytes } from "node:crypto";
import { Queue } from "bullmq";
import { expect, it } from "vitest";
import { waitUntilSettled, type SandboxAccess } from "../support/crmsync.ts";
import { armFault } from "../support/arm-fault.ts";
import { localDaemon, localSandbox, type LocalDaemon } from "../support/in-process.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const LIMIT = 12 * 2 ** 20;
const PREFIX = "{full}";

/** A large record that packing does not make smaller: a filling is then some hundred changes. */
const LONG = randomBytes(24_000).toString("base64");

const envFor = (redis: OwnRedis, sandbox: SandboxAccess) =>
  envOn(redis, sandbox, { QUEUE_PREFIX: PREFIX, QUOTA_PER_HOUR: "1000000" });

const person = (crmCode: string, firstName: string) =>
  personEvent(crmCode, { firstName, address: LONG });

async function usedBytes(redis: OwnRedis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.client.info("memory"))?.[1]);
}

/** Adds events as a foreign client does, until Redis accepts none. @returns how many it has. */
async function fillThroughBullmq(redis: OwnRedis, name: string): Promise<number> {
  const queue = new Queue("crm-events", { connection: { url: redis.url }, prefix: PREFIX });
  queue.on("error", () => {});
  try {
    for (let added = 0; ; added += 1) {
      const full = await queue.add("event", person(`${name}${added}`, name)).then(
        () => false,
        (error: Error) => /OOM/.test(error.message) || Promise.reject(error),
      );
      if (full) return added;
    }
  } finally {
    await queue.close();
  }
}

async function expectAll(
  sandbox: SandboxAccess,
  daemon: LocalDaemon,
  name: string,
  count: number,
): Promise<void> {
  const relations = [...(await sandbox.relations()).values()];
  expect(relations.filter(({ firstName }) => firstName === name).length).toBe(count);
  // None of the daemon's own work is refused by a full Redis.
  expect(daemon.log.filter((line) => /OOM|EXECABORT/.test(line))).toEqual([]);
}

it("filled to the brim through BullMQ before the daemon starts: it starts, and drains", async () => {
  await using redis = await ownRedis({ maxmemory: String(LIMIT) });
  await using sandbox = await localSandbox();
  const count = await fillThroughBullmq(redis, "Ada");
  expect(count).toBeGreaterThan(100);
  await using daemon = await localDaemon(envFor(redis, sandbox));
  await expect.poll(async () => (await daemon.status()).processes.length).toBe(1);
  await waitUntilSettled(daemon);
  await expectAll(sandbox, daemon, "Ada", count);
});

it("filled through HTTP: 503 with Retry-After well before the limit, and 202 when it has drained", async () => {
  await using redis = await ownRedis({ maxmemory: String(LIMIT) });
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(redis, sandbox));
  const end = await armFault(sandbox, { fault: "error", status: 503, times: 1_000_000 });
  const readyz = async () => (await fetch(`${daemon.url}/readyz`)).status;
  let accepted = 0;
  const answer = await waitFor(
    async () => {
      const events = Array.from({ length: 5 }, (_, n) => person(`h${accepted + n}`, "Ada"));
      const response = await daemon.push(events);
      if (response.status === 202) accepted += events.length;
      // What was accepted takes less room once it is staged, so both are looked at until they agree.
      const isFull = response.status !== 202 && (await readyz()) === 503;
      return isFull && response;
    },
    { what: "HTTP intake is full, and /readyz says so" },
  );
  expect(answer.status).toBe(503);
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  // While an event is staged, it takes room twice.
  await expect.poll(() => usedBytes(redis)).toBeLessThan(0.93 * LIMIT);
  await end();
  await waitUntilSettled(daemon);
  await expectAll(sandbox, daemon, "Ada", accepted);
  const later = async () => (await daemon.push([person("later", "Eda")])).status;
  await expect.poll(later).toBe(202);
});
