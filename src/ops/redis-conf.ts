import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { totalmem } from "node:os";
import { join } from "node:path";
import { readIfThere } from "./data-dir.ts";
import { CONF_FILE } from "./redis-process.ts";

const GIBIBYTE = 1_073_741_824;

export interface RedisAddress {
  port: number;
  password: string;
}

export function redisUrl({ port, password }: RedisAddress): string {
  return `redis://:${password}@127.0.0.1:${port}`;
}

/** The address that the last start wrote; absent in a new directory. */
export function readAddress(dir: string): RedisAddress | undefined {
  const conf = readIfThere(join(dir, CONF_FILE));
  const port = conf?.match(/^port (\d+)$/m)?.[1];
  const password = conf?.match(/^requirepass (\S+)$/m)?.[1];
  return port === undefined || password === undefined
    ? undefined
    : { port: Number(port), password };
}

/**
 * Only loopback can connect, and of the machine's users only those who can read this file.
 * `appendfsync always`: with `everysec`, a Redis that is killed while the disk is busy loses what it
 * had acknowledged, an accepted event or the mark that a request is under way.
 */
export function writeConf(dir: string, { port, password }: RedisAddress): void {
  const file = join(dir, CONF_FILE);
  rmSync(file, { force: true }); // a mode is only given to a new file
  writeFileSync(
    file,
    `# Written by crmsync at every start.
bind 127.0.0.1
port ${port}
requirepass ${password}
protected-mode yes
pidfile redis.pid
save ""
appendonly yes
appendfsync always
maxmemory ${Math.min(GIBIBYTE, Math.floor(totalmem() / 2))}
maxmemory-policy noeviction
`,
    { mode: 0o600 },
  );
}

/** The last start's port and password where they still serve, so that known URLs stay right. */
export async function chooseAddress(last: RedisAddress | undefined): Promise<RedisAddress> {
  const port = (last && (await freePort(last.port))) ?? (await freePort(0));
  if (port === undefined) throw new Error("No loopback port is free for redis-server.");
  return { port, password: last?.password ?? randomBytes(24).toString("base64url") };
}

/** The port, or any for 0; undefined when somebody else listens on it. */
async function freePort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
    });
  });
}
