/**
 * Whether a host name can be resolved, and to what, within a deadline. A name of /etc/hosts or of the name servers is
 * found here. Any other may still be one, by a search domain for instance: for it, the lookup that every
 * connection makes runs in a process of its own, because it cannot be cancelled, and Node does not exit before it has ended.
 */
import { execFile } from "node:child_process";
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { promisify } from "node:util";
import { TooLate, within } from "./deadline.ts";

// The deadline begins with the lookup: on a busy machine the start of the process alone takes a second.
const SCRIPT = `
const [, name, deadlineMs] = process.argv;
const late = setTimeout(() => process.kill(process.pid, "SIGKILL"), deadlineMs);
require("node:dns").lookup(name, (error, address) => {
  clearTimeout(late);
  process.stdout.write(JSON.stringify(error === null ? { address } : { code: error.code }));
});`;

const run = promisify(execFile);

/**
 * @param name of a host, or its address.
 * @throws TooLate, or an error whose `code` is that of the lookup.
 */
export async function resolveName(name: string, deadlineMs: number): Promise<string> {
  if (isIP(name) !== 0) return name;
  const began = performance.now();
  const found = await resolveHere(name, deadlineMs);
  return found ?? lookUp(name, Math.max(1, deadlineMs - (performance.now() - began)));
}

/** @returns undefined when neither knows it. */
async function resolveHere(name: string, deadlineMs: number): Promise<string | undefined> {
  const hosts = await readFile("/etc/hosts", "utf8").catch(() => "");
  for (const line of hosts.split("\n")) {
    const [address, ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    if (names.includes(name)) return address;
  }
  const resolver = new Resolver();
  try {
    const asked = Promise.any([resolver.resolve4(name), resolver.resolve6(name)]);
    return (await within(deadlineMs, asked))[0];
  } catch (error) {
    if (error instanceof TooLate)
      throw new TooLate(error.message.replace("answer", "answer of DNS"));
    return undefined;
  } finally {
    resolver.cancel();
  }
}

async function lookUp(name: string, deadlineMs: number): Promise<string> {
  const { stdout } = await run(process.execPath, ["-e", SCRIPT, name, `${deadlineMs}`]).catch(
    (error: Error & { signal?: string }) => {
      if (error.signal !== "SIGKILL") throw error;
      throw new TooLate(`no answer of DNS within ${Math.round(deadlineMs / 100) / 10} s`);
    },
  );
  const { address, code } = JSON.parse(stdout) as { address?: string; code?: string };
  if (address !== undefined) return address;
  throw Object.assign(new Error(`${name} cannot be resolved (${code})`), { code });
}
