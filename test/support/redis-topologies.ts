/** Several redis-servers that take over from each other: a Cluster, and a master with Sentinels. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ownPort } from "./own-port.ts";
import { ownRedis, type OwnRedis } from "./own-redis.ts";
import { waitFor } from "./wait-for.ts";

export interface RedisGroup extends AsyncDisposable {
  /** For REDIS_URL. */
  readonly url: string;
  readonly servers: readonly OwnRedis[];
  /** The server that takes the writes of this tenant now. */
  primaryOf(prefix: string): Promise<OwnRedis>;
}

/** After how long without an answer a server counts as lost, ms: a busy machine delays answers too. */
const LOST_AFTER_MS = 5000;

const MASTERS = 3;
const SLOTS = 16_384;

/** Three masters with a replica each. @param settings lines of redis.conf, asked for once per server. */
export async function ownCluster(
  settings: () => Promise<Readonly<Record<string, string>>> = async () => ({}),
): Promise<RedisGroup> {
  await using started = new AsyncDisposableStack();
  const nodes = await Promise.all(
    Array.from({ length: 2 * MASTERS }, async () => {
      const bus = await ownPort();
      const cluster = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": String(LOST_AFTER_MS),
        "cluster-port": String(bus),
        appendfsync: "everysec",
      };
      const own = await settings();
      const server = started.use(await ownRedis({ ...cluster, ...own }));
      return { bus, port: own["tls-port"] ?? portOf(server), server };
    }),
  );
  const servers = nodes.map(({ server }) => server);
  const masters = servers.slice(0, MASTERS);
  for (const [index, { client }] of masters.entries()) {
    const [from, to] = [index, index + 1].map((n) => Math.floor((n * SLOTS) / MASTERS));
    await client.cluster("ADDSLOTSRANGE", from ?? 0, (to ?? 0) - 1);
  }
  for (const { bus, port } of nodes.slice(1)) {
    await masters[0]?.client.call("CLUSTER", "MEET", "127.0.0.1", port, bus);
  }
  for (const [index, { client }] of servers.slice(MASTERS).entries()) {
    const id = await masters[index]?.client.cluster("MYID");
    await waitFor(() => client.cluster("REPLICATE", id ?? ""), { what: "the replica knows it" });
  }
  await Promise.all(
    servers.map(({ client }) =>
      waitFor(async () => isComplete(await client.cluster("INFO"), await client.info()), {
        what: "the Cluster is complete",
      }),
    ),
  );
  return {
    url: `redis+cluster://${masters.map((server) => `127.0.0.1:${portOf(server)}`).join(",")}`,
    servers,
    primaryOf: (prefix) => findServer(servers, async ({ client }) => isPrimary(client, prefix)),
    [Symbol.asyncDispose]: disposal(started),
  };
}

/** A master with two replicas, watched by three Sentinels. */
export async function ownSentinels(): Promise<RedisGroup> {
  await using started = new AsyncDisposableStack();
  const master = started.use(await ownRedis());
  const replicas = await Promise.all(
    [1, 2].map(async () =>
      started.use(await ownRedis({ replicaof: `127.0.0.1 ${portOf(master)}` })),
    ),
  );
  // One that has not copied anything yet could be promoted.
  await waitFor(async () => (await master.client.wait(replicas.length, 0)) === replicas.length, {
    what: "the replicas have a copy",
  });
  const settings = {
    "sentinel monitor": `mymaster 127.0.0.1 ${portOf(master)} 2`,
    "sentinel down-after-milliseconds": `mymaster ${LOST_AFTER_MS}`,
    "sentinel failover-timeout": "mymaster 20000",
  };
  const sentinels = await Promise.all(
    [1, 2, 3].map(async () => started.use(await ownRedis(settings, asSentinel))),
  );
  await Promise.all(
    sentinels.map(({ client }) =>
      waitFor(async () => /,slaves=2,sentinels=3/.test(await client.info("sentinel")), {
        what: "the Sentinels know each other",
      }),
    ),
  );
  const servers = [master, ...replicas];
  const hosts = sentinels.map((server) => `127.0.0.1:${portOf(server)}`).join(",");
  return {
    url: `redis+sentinel://${hosts}/mymaster`,
    servers,
    primaryOf: () =>
      findServer(servers, async (server) => {
        const [sentinel] = sentinels;
        const address = await sentinel?.client.call(
          "SENTINEL",
          "GET-MASTER-ADDR-BY-NAME",
          "mymaster",
        );
        return Array.isArray(address) && address[1] === portOf(server);
      }),
    [Symbol.asyncDispose]: disposal(started),
  };
}

async function asSentinel(command: string, dir: string): Promise<string> {
  const script = join(dir, "sentinel.sh");
  await writeFile(script, `#!/bin/sh\nexec ${command} "$@" --sentinel\n`, { mode: 0o755 });
  return script;
}

const portOf = ({ url }: OwnRedis): string => new URL(url).port;

const isComplete = (cluster: unknown, info: string): boolean =>
  /cluster_state:ok/.test(String(cluster)) &&
  /connected_slaves:1|master_link_status:up/.test(info) &&
  String(cluster).includes(`cluster_known_nodes:${2 * MASTERS}`);

async function isPrimary(client: OwnRedis["client"], prefix: string): Promise<boolean> {
  await client.exists(prefix); // another node answers MOVED
  return (await client.role())[0] === "master";
}

async function findServer(
  servers: readonly OwnRedis[],
  isWanted: (server: OwnRedis) => Promise<boolean>,
): Promise<OwnRedis> {
  for (const server of servers) {
    if (!server.isRunning()) continue;
    if (await isWanted(server).catch(() => false)) return server;
  }
  throw new Error("No server takes the writes now");
}

function disposal(started: AsyncDisposableStack): () => Promise<void> {
  const kept = started.move();
  return () => kept.disposeAsync();
}
