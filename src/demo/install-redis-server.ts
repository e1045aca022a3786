/** For a trial and for tests: a daemon installs nothing. */
import { spawn } from "node:child_process";
import { canRun, findRedisServer, NoRedisServer, succeeded } from "../base/find-redis-server.ts";

// Starts and enables nothing: only the program is needed, not its service. With the lock, a second
// process waits for the first; apt's own lock would make it fail.
const INSTALL = `
set -e
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends "$1"
if [ -d /run/systemd/system ]; then systemctl -q disable "$1" || true; fi
`;

/** Installs one Debian package, as root, and says so on stderr; resolves to whether it succeeded. */
export async function installDebianPackage(name: string): Promise<boolean> {
  const mayInstall = process.getuid?.() === 0 && (await canRun("apt-get", ["--version"]));
  if (!mayInstall) return false;
  process.stderr.write(`Installing the Debian package ${name} (apt-get install ${name}) …\n`);
  const child = spawn("flock", ["/var/lib/dpkg", "sh", "-c", INSTALL, "sh", name], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.pipe(process.stderr, { end: false });
  child.stderr.pipe(process.stderr, { end: false });
  return succeeded(child);
}

/** @throws NoRedisServer when the machine has none and none can be installed. */
export async function provideRedisServer(): Promise<string> {
  try {
    return await findRedisServer();
  } catch (error) {
    if (!(error instanceof NoRedisServer) || !(await installDebianPackage("redis-server"))) {
      throw error;
    }
    return findRedisServer();
  }
}
