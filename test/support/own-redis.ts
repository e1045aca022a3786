/** A redis-server of the test's own, to be killed, frozen, filled and emptied at will. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { provideRedisServer } from "../../src/demo/install-redis-server.ts";
import { CONF_FILE, spawnRedis, type RedisProcess } from "../../src/base/redis-process.ts";
import { ownPort } from "./own-port.ts";
import { tempDir } from "./temp-dir.ts";
import { waitFor } from "./wait-for.ts";

export interface OwnRedis extends AsyncDisposable {
  readonly url: string;
  /** Connects again by itself; its commands wait while Redis is down. */
  readonly client: Redis;
  /** Starts it again on the same port, with everything that its AOF holds. */
  start(): Promise<void>;
  /** Started, and not killed since. */
  isRunning(): boolean;
  /** SIGKILL, as in a crash. */
  kill(): Promise<void>;
  /** SIGSTOP freezes it, SIGCONT lets it continue. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
}

const SETTINGS = {
  bind: "127.0.0.1",
  save: '""',
  appendonly: "yes",
  appendfsync: "always",
  "maxmemory-policy": "noeviction",
  // A replica is served at once.
  "repl-diskless-sync-delay": "0",
};

type Settings = Readonly<Record<string, string>>;
type Wrap = (command: string, dir: string) => string | Promise<string>;

/**
 * @param settings lines of redis.conf by name; they override the ones above
 * @param wrapped makes the command that is run, with what it needs, in the folder of the server
 * @throws NoRedisServer when the machine has none and none can be installed
 */
export async function ownRedis(
  settings: Settings = {},
  wrapped: Wrap = (command) => command,
): Promise<OwnRedis> {
  const found = await provideRedisServer();
  const port = await ownPort();
  const dir = await tempDir();
  const command = await wrapped(found, dir.path);
  const lines = Object.entries({ ...SETTINGS, port, ...settings });
  writeFileSync(
    join(dir.path, CONF_FILE),
    lines.map(([name, value]) => `${name} ${value}\n`).join(""),
  );
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  client.on("error", () => {}); // the command in flight reports it
  let server: RedisProcess | undefined;
  const send = (signal: NodeJS.Signals) => {
    try {
      if (server?.pid !== undefined) process.kill(server.pid, signal);
    } catch {} // it has exited already
  };
  // The server ends with this process however this process ends; a frozen one needs SIGKILL.
  const killNow = () => send("SIGKILL");
  process.once("exit", killNow);

  async function answers(): Promise<boolean> {
    const pid = Number(/^process_id:(\d+)/m.exec(await client.info("server"))?.[1]);
    if (pid !== server?.pid) throw new Error(`Process ${pid} answers, not this test's server.`);
    return true;
  }

  async function start(): Promise<void> {
    server = spawnRedis(command, dir.path);
    const ended = server.ended.then((how) => {
      throw new Error(`redis-server on port ${port} has ended: ${how}`);
    });
    await Promise.race([waitFor(answers, { what: `redis-server is up on port ${port}` }), ended]);
  }

  async function kill(): Promise<void> {
    const { ended } = server ?? {};
    send("SIGKILL");
    server = undefined;
    await ended;
  }

  async function close(): Promise<void> {
    client.disconnect();
    await kill();
    process.off("exit", killNow);
    await dir[Symbol.asyncDispose]();
  }

  try {
    await start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    url,
    client,
    isRunning: () => server !== undefined,
    start,
    kill,
    signal: send,
    [Symbol.asyncDispose]: close,
  };
}
