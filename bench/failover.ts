/**
 * Chapter "failover": acknowledged events that a replica lacks when its primary is killed. Senders
 * push one event at a time, as POST /events does; then the replica takes over.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { Inbox } from "../src/core/event/inbox.ts";
import { Replication } from "../src/core/state/redis-health.ts";
import { ownRedis, type OwnRedis } from "../test/support/own-redis.ts";
import { personEvent } from "../test/support/person-event.ts";
import { slowNetwork } from "../test/support/slow-network.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";

const FAILOVERS = Number(process.env["FAILOVERS"] ?? 20);
const SENDERS = 8;
const PREFIX = "{failover}";

/** Load before the kill, ms: long enough that the replica follows. */
const LOAD_MS = 300;

interface Count {
  acknowledged: number;
  lost: number;
  failoversWithLoss: number;
  perSecond: number;
}

export async function runFailover(): Promise<Table> {
  const rows: Table["rows"][number][] = [];
  for (const delayMs of [0, 1, 10]) {
    for (const confirms of [false, true]) {
      const total: Count = { acknowledged: 0, lost: 0, failoversWithLoss: 0, perSecond: 0 };
      for (let n = 0; n < FAILOVERS; n += 1) {
        const one = await failOver(delayMs, confirms);
        total.acknowledged += one.acknowledged;
        total.lost += one.lost;
        total.failoversWithLoss += one.lost > 0 ? 1 : 0;
        total.perSecond += one.perSecond / FAILOVERS;
      }
      rows.push({
        "replica is away": `${delayMs} ms`,
        "answer waits for it": confirms ? "yes" : "no",
        acknowledged: total.acknowledged,
        lost: total.lost,
        "failovers with a loss": total.failoversWithLoss,
        "events a second": Math.round(total.perSecond),
      });
    }
  }
  return { title: `Acknowledged events lost in ${FAILOVERS} failovers each`, rows };
}

async function failOver(delayMs: number, confirms: boolean) {
  await using primary = await ownRedis({ appendfsync: "everysec" });
  await using network = await slowNetwork(primary.url, delayMs);
  const { port } = new URL(network.url);
  await using replica = await ownRedis({ replicaof: `127.0.0.1 ${port}` });
  await waitFor(async () => (await primary.client.wait(1, 0)) === 1, {
    what: "the replica follows",
  });
  const acknowledged = await load(primary, confirms);
  await replica.client.replicaof("NO", "ONE");
  const kept = await eventsIn(replica);
  const lost = acknowledged.filter((id) => !kept.has(id)).length;
  return {
    acknowledged: acknowledged.length,
    lost,
    perSecond: (acknowledged.length * 1000) / LOAD_MS,
  };
}

/** Pushes until the primary is killed. @returns the ids of the events that were acknowledged. */
async function load(primary: OwnRedis, confirms: boolean): Promise<string[]> {
  const redis = new Redis(primary.url, { maxRetriesPerRequest: 0, retryStrategy: () => null });
  redis.on("error", () => {});
  const inbox = new Inbox(redis, PREFIX);
  const replication = new Replication(redis, () => {});
  const acknowledged: string[] = [];
  const over = new AbortController();
  const senders = Array.from({ length: SENDERS }, async (_, sender) => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      const event = personEvent(`${sender}-${n}`);
      try {
        await inbox.push([event]);
        if (confirms) await replication.confirm();
      } catch {
        return;
      }
      acknowledged.push(event.id);
    }
  });
  await delay(LOAD_MS);
  await primary.kill();
  over.abort();
  await Promise.all(senders);
  redis.disconnect();
  return acknowledged;
}

async function eventsIn({ client }: OwnRedis): Promise<Set<string>> {
  const ids = await client.lrange(`${PREFIX}:crm-events:wait`, 0, -1);
  const pipeline = client.pipeline();
  for (const id of ids) pipeline.hget(`${PREFIX}:crm-events:${id}`, "data");
  const jobs = (await pipeline.exec()) ?? [];
  return new Set(jobs.map(([, data]) => (JSON.parse(String(data)) as { id: string }).id));
}
