/**
 * Finds, before each connection is opened, the Redis that holds our keys now, among several that may take
 * over from each other: the master that Sentinels name, or the node of a Cluster that holds our hash
 * slot. All keys of a tenant are in one slot, so one ordinary connection to that node does everything
 * (docs/adr/0014).
 */
import { createConnection, isIP, Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { AbstractConnector, Redis } from "ioredis";
import type { RedisNode, RedisUrl } from "./redis-url.ts";
import type { ClientOptions } from "./tenant-redis.ts";

/** How long one server may take to connect, and to answer, ms. */
const ASK_MS = 1500;

export type FindPrimary = () => Promise<RedisNode | { readonly path: string }>;

type Ask = (client: Redis, asked: RedisNode) => Promise<RedisNode>;
type Slots = readonly (readonly [from: number, to: number, ...nodes: readonly Announced[]])[];
type Announced = readonly [host: string | null, port: number, ...more: unknown[]];

/** @param prefix QUEUE_PREFIX: its hash tag decides which hash slot is ours. */
export function primaryOf(
  url: RedisUrl,
  prefix: string,
  tls: ConnectionOptions | undefined,
): FindPrimary {
  let nodes = url.nodes;
  let finding: Promise<RedisNode> | undefined;
  const isCluster = url.kind === "cluster";
  const options: ClientOptions = {
    username: isCluster ? url.username : url.sentinelUsername,
    password: isCluster ? url.password : url.sentinelPassword,
    family: url.family,
  };
  const ask: Ask = isCluster
    ? async (client, asked) => {
        const slots = await readSlots(client);
        const owner = ownerOf(slots, await client.cluster("KEYSLOT", prefix), asked);
        // Nodes join and leave: the ones in the URL need not be there for ever.
        const present = slots.flatMap((range) => nodesIn(range, asked));
        nodes = unique([asked, ...present, ...url.nodes]);
        return owner;
      }
    : async (client, asked) => {
        const master = await masterNamed(client, url.master ?? "");
        nodes = unique([asked, ...url.nodes]);
        return master;
      };
  // When a server fails, many connections are lost at once: one search serves them all.
  return () =>
    (finding ??= askAny(nodes, options, tls, ask).finally(() => {
      finding = undefined;
    }));
}

/** All nodes of a Cluster that hold a slot, as one of them knows them. */
export async function primariesOfCluster(client: Redis, asked: RedisNode): Promise<RedisNode[]> {
  const slots = await readSlots(client);
  return unique(slots.flatMap((range) => nodesIn(range, asked).slice(0, 1)));
}

/** @throws the last error, when none of the nodes names the primary. */
async function askAny(
  nodes: readonly RedisNode[],
  options: ClientOptions,
  tls: ConnectionOptions | undefined,
  ask: Ask,
): Promise<RedisNode> {
  let last = new Error("no server is named");
  for (const node of nodes) {
    const client = new Redis({
      ...options,
      ...node,
      ...(tls && { tls: namedTls(tls, node) }),
      lazyConnect: true,
      enableReadyCheck: false,
      retryStrategy: () => null,
      connectTimeout: ASK_MS,
      commandTimeout: ASK_MS,
    });
    client.on("error", (error: Error) => (last = error));
    try {
      await client.connect();
      return await ask(client, node);
    } catch (error) {
      // The error of connect() only says that the connection is closed.
      if ((error as Error).message !== "Connection is closed.") last = error as Error;
    } finally {
      client.disconnect();
    }
  }
  throw last;
}

async function masterNamed(client: Redis, master: string): Promise<RedisNode> {
  const reply = await client.call("SENTINEL", "get-master-addr-by-name", master);
  if (!Array.isArray(reply)) {
    throw new Error(`the Sentinel knows no master ${master}: correct its name in REDIS_URL`);
  }
  return { host: String(reply[0]), port: Number(reply[1]) };
}

const readSlots = (client: Redis): Promise<Slots> => client.cluster("SLOTS");

function ownerOf(slots: Slots, slot: number, asked: RedisNode): RedisNode {
  const range = slots.find(([from, to]) => from <= slot && slot <= to);
  const [owner] = range === undefined ? [] : nodesIn(range, asked);
  if (owner === undefined) throw new Error(`no node of the Cluster holds our hash slot ${slot}`);
  return owner;
}

/** The primary of these slots, then its replicas. A node that has no address is the one we asked. */
const nodesIn = ([, , ...nodes]: Slots[number], asked: RedisNode): RedisNode[] =>
  nodes.map(([host, port]) => ({ host: host || asked.host, port }));

const unique = (nodes: readonly RedisNode[]): RedisNode[] => [
  ...new Map(nodes.map((node) => [`${node.host}:${node.port}`, node])).values(),
];

/** Tells the server by which name it is called, so that it can show the certificate of that name. */
const namedTls = (tls: ConnectionOptions, { host }: RedisNode): ConnectionOptions =>
  isIP(host) === 0 ? { servername: host, ...tls } : tls;

const REPLICA = "READONLY this Redis is a replica; the address must lead to its primary";

/** How long a new connection listens before it speaks, ms. */
const LISTEN_MS = 20;

/** The most of its words that are shown, in characters. */
const WORDS_MOST = 200;

/**
 * A Redis that refuses a client (protected mode, too many clients) says why at once, and closes. What is written
 * meanwhile would end in EPIPE, and its words would be lost.
 */
function listenFirst(socket: Socket): void {
  const refused = (said: Buffer) => {
    const [, words] = /^-([^\r]+)/.exec(said.toString()) ?? [];
    if (words !== undefined) socket.destroy(new Error(words.slice(0, WORDS_MOST)));
  };
  socket.cork();
  socket.once("data", refused);
  socket.once("connect", () =>
    setTimeout(() => {
      socket.off("data", refused);
      socket.uncork();
    }, LISTEN_MS),
  );
}

/** A connector of ioredis that asks for the primary before each connection. */
export function connectorTo(
  find: FindPrimary,
  { family }: RedisUrl,
  tls: ConnectionOptions | undefined,
) {
  return class PrimaryConnector extends AbstractConnector {
    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout);
    }

    /** A server that is a replica by now rejects writes: the client connects again. */
    override check({ role }: { readonly role?: string }): boolean {
      if (role === undefined || role === "master") return true;
      // The client reports it; without it nobody would know why nothing goes on.
      this.stream?.destroy(new Error(REPLICA));
      return false;
    }

    /** ioredis calls this for every command that asks to reconnect: a stream that is ending is left alone. */
    override disconnect(): void {
      if (this.stream?.writableEnded) this.connecting = false;
      else super.disconnect();
    }

    /** Never rejects, because ioredis would then not try again: it returns a destroyed stream instead. */
    override async connect(): Promise<Socket> {
      this.connecting = true;
      try {
        const node = await find();
        if (!this.connecting) throw new Error("Connection is closed.");
        const to = { ...node, family };
        const named = tls && "host" in node ? namedTls(tls, node) : tls;
        this.stream = named ? connectTls({ ...to, ...named }) : createConnection(to);
        this.stream.once("error", (error: Error) => (this.firstError = error));
        if (!named) listenFirst(this.stream);
      } catch (error) {
        this.firstError = error as Error;
        this.stream = new Socket().destroy();
      }
      return this.stream;
    }
  };
}
