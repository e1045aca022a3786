import {
  canRun,
  installDebianPackage,
  mayInstallDebianPackages,
} from "./install-debian-package.ts";

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

/**
 * The command that starts a Redis server. Installs it if it is missing and this process may (root
 * on Debian); otherwise throws NoRedisServer, which lists the ways to get one.
 */
export async function findRedisServer(): Promise<string> {
  const found = await installed();
  if (found !== undefined) return found;
  if ((await mayInstallDebianPackages()) && (await installDebianPackage(COMMANDS[0]))) {
    const command = await installed();
    if (command !== undefined) return command;
  }
  throw new NoRedisServer();
}

async function installed(): Promise<string | undefined> {
  for (const command of COMMANDS) {
    if (await canRun(command, ["--version"])) return command;
  }
  return undefined;
}
