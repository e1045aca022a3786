import { randomBytes } from "node:crypto";
import { chmod } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import { readIfThere } from "./data-dir.ts";
import { createServer } from "node:net";
import { CONF_FILE } from "./redis-process.ts";
import { writeWhole } from "./write-whole.ts";

const GIBIBYTE = 1_073_741_824;

export interface RedisAddress {
  port: number;
  password: string;
}

/** With the user's name: without one, redis-cli does not log in. */
export function redisUrl({ port, password }: RedisAddress): string {
  return `redis://default:${password}@127.0.0.1:${port}`;
}

/** The address that the last start wrote; undefined in a new directory. */
export function readAddress(dir: string): RedisAddress | undefined {
  const conf = readIfThere(join(dir, CONF_FILE));
  const port = conf?.match(/^port (\d+)$/m)?.[1];
  const password = conf?.match(/^requirepass (\S+)$/m)?.[1];
  return port === undefined || password === undefined
    ? undefined
    : { port: Number(port), password };
}

/**
 * Only programs on this machine that can read this file can connect.
 * `appendfsync always`: with `everysec`, a Redis that is killed while the disk is busy loses writes
 * that it has acknowledged, such as an accepted event or the mark that a request is under way.
 * Its log has only warnings: each rewrite of the append-only file would add 900 bytes, up to 12 times an
 * hour, and the log is only shortened when the server starts.
 * No slow log: it would keep the arguments of slow commands, among them values of persons.
 * The older file stays until the new one is complete: no other place has the password that senders use.
 */
export async function writeConf(dir: string, { port, password }: RedisAddress): Promise<void> {
  const file = join(dir, CONF_FILE);
  await writeWhole(file, [
    `# Written by crmsync at every start.
bind 127.0.0.1
port ${port}
requirepass ${password}
protected-mode yes
pidfile redis.pid
loglevel warning
save ""
appendonly yes
appendfsync always
maxmemory ${Math.min(GIBIBYTE, Math.floor(totalmem() / 2))}
maxmemory-policy noeviction
slowlog-log-slower-than -1
`,
  ]);
  // It holds the password, whatever mode an older file had.
  await chmod(file, 0o600);
}

/** Reuses the last start's port, if it is free, and password, so that known URLs stay valid. */
export async function chooseAddress(last: RedisAddress | undefined): Promise<RedisAddress> {
  const port = (last && (await freePort(last.port))) ?? (await freePort());
  if (port === undefined) throw new Error("No loopback port is free for redis-server.");
  return { port, password: last?.password ?? randomBytes(24).toString("base64url") };
}

/** Resolves with `port`, or any free port for 0; undefined if something listens on it. */
export async function freePort(port = 0): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
    });
  });
}
