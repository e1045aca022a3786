import { installDebianPackage, mayInstallDebianPackages, runs } from "./install-debian-package.ts";

const REMEDY = `No redis-server was found on the PATH. Any one of these helps:
  - Set REDIS_URL to a Redis that is there already.
  - On Debian or Ubuntu: apt-get install redis-server
  - On Fedora or RHEL: dnf install redis
  - On macOS: brew install redis
  - With Docker: docker run -d -p 127.0.0.1:6379:6379 redis:7 redis-server --appendonly yes --maxmemory-policy noeviction, and REDIS_URL=redis://127.0.0.1:6379`;

export class NoRedisServer extends Error {
  override readonly name = "NoRedisServer";
  constructor() {
    super(REMEDY);
  }
}

/**
 * The command that starts a Redis server. When there is none it is installed, if this process may
 * (root on Debian); throws NoRedisServer, with one line per way to get one, if not.
 */
export async function findRedisServer(): Promise<string> {
  const command = "redis-server";
  if (await runs(command, ["--version"])) return command;
  if (
    (await mayInstallDebianPackages()) &&
    (await installDebianPackage(command)) &&
    (await runs(command, ["--version"]))
  ) {
    return command;
  }
  throw new NoRedisServer();
}
