/** A Redis of the test's own, to be stopped, filled and emptied at will. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import { findRedisServer } from "../../src/ops/find-redis-server.ts";
import { tempDir } from "./crmsync.ts";
import { waitFor } from "./wait-for.ts";

export interface OwnRedis extends AsyncDisposable {
  readonly url: string;
  /** A client for looking and meddling. */
  readonly client: Redis;
  start(): Promise<void>;
  /** SIGKILL, as a crash would; what AOF has written stays. */
  kill(): Promise<void>;
}

export async function ownRedis(args: readonly string[] = []): Promise<OwnRedis> {
  const command = await findRedisServer();
  const dir = await tempDir();
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  client.on("error", () => {});
  const killNow = () => child?.kill("SIGKILL");
  process.once("exit", killNow);

  async function start(): Promise<void> {
    const settings = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir.path];
    const durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    child = spawn(command, [...settings, ...durable, ...args], { stdio: "ignore" });
    await waitFor(async () => (await client.ping()) === "PONG", { what: "redis answers" });
  }

  async function kill(): Promise<void> {
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    child = undefined;
  }

  await start();
  return {
    url,
    client,
    start,
    kill,
    async [Symbol.asyncDispose]() {
      client.disconnect();
      await kill();
      process.off("exit", killNow);
      await dir[Symbol.asyncDispose]();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
