/**
 * Chapter "idle": what a daemon costs Redis when nothing has happened for a minute, and how long the
 * first change then needs from its event to the service's receipt.
 */
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { startDaemon, startSandbox } from "../test/support/crmsync.ts";
import { ownRedis } from "../test/support/own-redis.ts";
import { watchCommands } from "../test/support/watch-commands.ts";
import { eventOf, post } from "./ingest.ts";
import { observe } from "./observed-service.ts";
import type { Table } from "./table.ts";

const WINDOW_MS = Number(process.env["IDLE_WINDOW_MS"] ?? 120_000);
/** How long nothing happens before it is measured, ms. */
const IDLE_MS = 60_000;
/** How often a change ends an idle minute, after the first change of the process. */
const CHANGES = Number(process.env["IDLE_CHANGES"] ?? 5);
const DAY_MS = 86_400_000;

/** Kinds of commands that have a row of their own; the others share one. */
const KINDS = 8;

export async function runIdle(): Promise<readonly Table[]> {
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  await using service = await observe(sandbox.url);
  await using daemon = await startDaemon({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: service.url,
    SERVICE_TOKEN: sandbox.token,
  });
  const agent = new Agent({ keepAlive: true });
  try {
    await sleep(IDLE_MS);
    const cost = await costOf(redis.client, redis.url);
    const first: number[] = [];
    for (let n = 0; n <= CHANGES; n += 1) {
      await sleep(IDLE_MS);
      const lastName = `First ${n} end`;
      const arrival = service.arrival(lastName);
      const started = performance.now();
      await post(daemon.url, agent, eventOf(n, { lastName }));
      first.push((await arrival) - started);
    }
    return tablesOf(cost, first);
  } finally {
    agent.destroy();
  }
}

interface Cost {
  /** Name of the command → how often clients have sent it; what scripts do is part of the script. */
  readonly commands: ReadonlyMap<string, number>;
  readonly aofBytes: number;
}

async function costOf(redis: Redis, url: string): Promise<Cost> {
  const commands = new Map<string, number>();
  const bytesBefore = await aofBytes(redis);
  {
    using _watching = await watchCommands(url, ({ name }) => {
      commands.set(name, (commands.get(name) ?? 0) + 1);
    });
    await sleep(WINDOW_MS);
  }
  return { commands, aofBytes: (await aofBytes(redis)) - bytesBefore };
}

async function aofBytes(redis: Redis): Promise<number> {
  return Number(/^aof_current_size:(\d+)/m.exec(await redis.info("persistence"))?.[1]);
}

function tablesOf({ commands, aofBytes: bytes }: Cost, first: readonly number[]): Table[] {
  const perSecond = (count: number) => Number(((count * 1000) / WINDOW_MS).toFixed(2));
  const [firstOfAll = Number.NaN, ...later] = first;
  const ms = (time: number) => Number(time.toFixed(1));
  const sorted = [...commands].toSorted(([, a], [, b]) => b - a);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  const others = sorted.slice(KINDS).reduce((sum, [, count]) => sum + count, 0);
  const row = (what: string, measured: number, target: number | string = "") => ({
    what,
    measured,
    target,
  });
  return [
    {
      title: "A daemon for which nothing has happened for a minute",
      rows: [
        row("commands a second", perSecond(total), 40),
        row("AOF, MB a day", Number(((bytes * DAY_MS) / WINDOW_MS / 1e6).toFixed(2)), 2),
        row(`first change after it, slowest of ${later.length}, ms`, ms(Math.max(...later)), 25),
        row("the process's first change of all, whose code has never run, ms", ms(firstOfAll)),
      ],
    },
    {
      title: "Its commands a second, by kind",
      rows: [
        ...sorted.slice(0, KINDS).map(([name, count]) => row(name, perSecond(count))),
        row("others", perSecond(others)),
      ],
    },
  ];
}
