import { spawn } from "node:child_process";
import { once } from "node:events";

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

/** True if this process is root and apt-get exists. */
export async function mayInstallDebianPackages(): Promise<boolean> {
  return process.getuid?.() === 0 && (await canRun("apt-get", ["--version"]));
}

/** Installs one Debian package and reports it on stderr; resolves to whether it succeeded. */
export async function installDebianPackage(name: string): Promise<boolean> {
  process.stderr.write(`Installing the Debian package ${name} (apt-get install ${name}) …\n`);
  const child = spawn("flock", ["/var/lib/dpkg", "sh", "-c", INSTALL, "sh", name], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.pipe(process.stderr, { end: false });
  child.stderr.pipe(process.stderr, { end: false });
  return succeeded(child);
}

/** Whether the command is on the PATH and exits 0. */
export async function canRun(command: string, args: string[]): Promise<boolean> {
  return succeeded(spawn(command, args, { stdio: "ignore" }));
}

async function succeeded(child: ReturnType<typeof spawn>): Promise<boolean> {
  try {
    const [code] = (await once(child, "close")) as [number | null];
    return code === 0;
  } catch {
    return false; // the command does not exist
  }
}
