/**
 * Resolves a host name like every connection of this program, and gives up at a deadline. It runs in
 * a process of its own: a lookup cannot be cancelled, and Node does not exit before it has ended.
 */
import { execFile } from "node:child_process";
import { isIP } from "node:net";
import { promisify } from "node:util";
import { TooLate } from "./deadline.ts";

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
