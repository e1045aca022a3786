/** Runs a command in a process of its own: what takes long must take neither the daemon's time nor its memory. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { printable } from "../src/base/printable.ts";
import { UserError } from "../src/base/user-error.ts";
import type { CertificateRequest } from "../src/people/console/access.ts";
import { yieldProcessor } from "./reconcile-child.ts";

const MAIN = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../src/cli/main.ts" : "../src/cli/main.js",
    import.meta.url,
  ),
);

/** Most characters of what the command says last. */
const MOST_KEPT = 500;

/** How the name of the program begins what it says to people about a failure. */
const SAID = "crmsync: ";

/** A trail of some gigabytes takes some minutes, ms. */
const CERTIFY_MS = 600_000;

/** @param signal kills it */
export function startCommand(args: readonly string[], signal: AbortSignal) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    signal,
    killSignal: "SIGKILL",
  });
  yieldProcessor(child.pid);
  const closed = once(child, "close").catch((error: Error): unknown[] => [error.message]);
  const ended = async () => {
    const written = (await text(child.stderr)).trim().split("\n").at(-1) ?? "";
    const [code, by] = await closed;
    const says = written.replace(SAID, "") || `it ended with ${String(code ?? by)}`;
    const isForPeople = written.startsWith(SAID);
    return { isDone: code === 0, isForPeople, says: printable(says.slice(0, MOST_KEPT)) };
  };
  return { stdout: child.stdout, ended: ended() };
}

/**
 * The certificate of `crmsync certify`, for the console.
 * @returns the file, from its first byte on
 * @throws UserError as the command says it
 */
export async function certifyInChild(request: CertificateRequest): Promise<Readable> {
  const { by, format, month } = request;
  const args = ["certify", "--by", by, "--month", month, "--out", "-"];
  const json = format === "json" ? ["--json"] : [];
  const { ended, stdout } = startCommand([...args, ...json], AbortSignal.timeout(CERTIFY_MS));
  await Promise.race([once(stdout, "readable"), ended]);
  if (stdout.readableLength > 0) return stdout;
  stdout.resume();
  const { isForPeople, says } = await ended;
  throw isForPeople ? new UserError(says) : new Error(says);
}
