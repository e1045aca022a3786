/** Makes a certificate in a process of its own (certify-run.ts), for the console. */
import { fork } from "node:child_process";
import type { Readable } from "node:stream";
import { UserError } from "../src/base/user-error.ts";
import type { CertifyRequest } from "../src/certify/make.ts";
import type { CertifyMessage } from "./certify-run.ts";
import { yieldProcessor } from "./reconcile-child.ts";

const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "./certify-run.ts" : "./certify-run.js",
  import.meta.url,
);

/** A trail of some gigabytes takes some minutes, ms. */
const DEADLINE_MS = 600_000;

/**
 * @returns the file, from its first byte on; closed when the process has ended, which it does once it is destroyed
 * @throws UserError of makeCertificate
 */
export async function certifyInChild(request: CertifyRequest): Promise<Readable> {
  const child = fork(PROGRAM, { execArgv: [], stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const made = Promise.withResolvers<Readable>();
  const late = setTimeout(() => child.kill("SIGKILL"), DEADLINE_MS).unref();
  child.once("error", made.reject);
  child.once("close", (code, by) => {
    clearTimeout(late);
    made.reject(new Error(`the process of the certificate ended ${by ?? `with ${code}`}`));
  });
  child.once("message", (message: CertifyMessage) => {
    if (message.kind === "made" && child.stdout !== null) return made.resolve(child.stdout);
    const { isUsers, says } = message as Extract<CertifyMessage, { kind: "failed" }>;
    made.reject(isUsers ? new UserError(says) : new Error(says));
    child.disconnect();
  });
  child.send(request, () => {});
  yieldProcessor(child.pid);
  return made.promise;
}
