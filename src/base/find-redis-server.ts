import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Valkey is what some distributions have instead of Redis. */
const COMMANDS = ["redis-server", "valkey-server"] as const;

const REMEDY = `No redis-server or valkey-server was found on the PATH. Do one of these:
  - Set REDIS_URL to a Redis that already runs.
  - On Debian or Ubuntu: apt-get install redis-server
  - On Fedora or RHEL: dnf install valkey
  - On macOS: brew install redis
  - With Docker: docker run -d -p 127.0.0.1:6379:6379 redis:7 redis-server --appendonly yes --appendfsync always --maxmemory-policy noeviction, and REDIS_URL=redis://127.0.0.1:6379`;

export class NoRedisServer extends Error {
  override readonly name = "NoRedisServer";
  constructor() {
    super(REMEDY);
  }
}

/** @returns the command that starts a Redis server. @throws NoRedisServer, which lists the ways to get one. */
export async function findRedisServer(): Promise<string> {
  for (const command of COMMANDS) {
    if (await canRun(command, ["--version"])) return command;
  }
  throw new NoRedisServer();
}

/** Whether the command is on the PATH and exits 0. */
export async function canRun(command: string, args: string[]): Promise<boolean> {
  return succeeded(spawn(command, args, { stdio: "ignore" }));
}

export async function succeeded(child: ChildProcess): Promise<boolean> {
  try {
    const [code] = (await once(child, "close")) as [number | null];
    return code === 0;
  } catch {
    return false; // the command does not exist
  }
}
