import { spawn } from "node:child_process";
import { once } from "node:events";

// Nothing is started or enabled: the package is wanted for its program, not for its service.
// The lock lets the second of two processes wait for the first instead of failing on apt's own.
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

/** Whether this process may install Debian packages: it is root, and apt-get is there. */
export async function mayInstallDebianPackages(): Promise<boolean> {
  return process.getuid?.() === 0 && (await runs("apt-get", ["--version"]));
}

/** Installs one Debian package, says so on stderr, and resolves to whether that worked. */
export async function installDebianPackage(name: string): Promise<boolean> {
  process.stderr.write(`Installing Debian's package ${name} (apt-get install ${name}) …\n`);
  const child = spawn("flock", ["/var/lib/dpkg", "sh", "-c", INSTALL, "sh", name], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.pipe(process.stderr, { end: false });
  child.stderr.pipe(process.stderr, { end: false });
  return succeeded(child);
}

/** Whether the command is on the PATH and exits 0. */
export async function runs(command: string, args: string[]): Promise<boolean> {
  return succeeded(spawn(command, args, { stdio: "ignore" }));
}

async function succeeded(child: ReturnType<typeof spawn>): Promise<boolean> {
  try {
    const [code] = (await once(child, "close")) as [number | null];
    return code === 0;
  } catch {
    return false; // the command is not there
  }
}
