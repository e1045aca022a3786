import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import { findRedisServer } from "../../src/ops/find-redis-server.ts";
import { waitFor } from "../support/wait-for.ts";

/** A redis-server that can be killed and comes back with its data (AOF) on the same port. */
export class OwnRedis implements AsyncDisposable {
  readonly url: string;
  readonly #command: string;
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;

  private constructor(command: string, port: number, dir: string) {
    this.url = `redis://127.0.0.1:${port}`;
    this.#command = command;
    this.#args = Object.entries({
      bind: "127.0.0.1",
      port: String(port),
      dir,
      save: "",
      appendonly: "yes",
      appendfsync: "always",
      "maxmemory-policy": "noeviction",
      logfile: "redis.log",
    }).flatMap(([name, value]) => [`--${name}`, value]);
  }

  /** @throws NoRedisServer when the machine has none and none can be installed. */
  static async start(dir: string): Promise<OwnRedis> {
    const redis = new OwnRedis(await findRedisServer(), await freePort(), dir);
    await redis.up();
    return redis;
  }

  async up(): Promise<void> {
    const child = spawn(this.#command, this.#args, { stdio: "ignore" });
    const end = () => child.kill("SIGKILL");
    process.once("exit", end);
    child.once("exit", () => process.off("exit", end));
    this.#child = child;
    await waitFor(() => this.#answers(), { what: "redis-server answers", deadlineMs: 30_000 });
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #answers(): Promise<boolean> {
    const client = new Redis(this.url, { lazyConnect: true, retryStrategy: () => null });
    client.on("error", () => {});
    try {
      await client.connect();
      return (await client.ping()) === "PONG";
    } finally {
      client.disconnect();
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port is free");
  return address.port;
}
