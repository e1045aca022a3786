/**
 * A process of its own for one certificate: verifying a large trail and naming many exceptions must take neither the
 * daemon's time nor its memory. The file goes to stdout once the certificate is made.
 */
import { readConfig } from "../src/base/config.ts";
import { connectOperator } from "../src/base/connect-redis.ts";
import { UserError } from "../src/base/user-error.ts";
import { makeCertificate, type CertifyRequest, type Made } from "../src/certify/make.ts";
import { openStores } from "../src/operate/status/stores.ts";

/** `failed`: `isUsers` tells whether a person can do something about it. */
export type CertifyMessage =
  | { readonly kind: "made" }
  | { readonly kind: "failed"; readonly says: string; readonly isUsers: boolean };

async function make(request: CertifyRequest): Promise<Made> {
  const config = readConfig();
  const stores = openStores(config, await connectOperator(config));
  try {
    return await makeCertificate(stores, request, async () => {});
  } finally {
    await stores.close();
  }
}

async function answer(request: CertifyRequest): Promise<void> {
  const tell = (message: CertifyMessage) => process.send?.(message);
  try {
    const { file } = await make(request);
    tell({ kind: "made" });
    process.stdout.end(file, () => process.exit(0));
  } catch (error) {
    const says = error instanceof Error ? error.message : String(error);
    tell({ kind: "failed", says, isUsers: error instanceof UserError });
  }
}

// The daemon ends it; a signal for all processes of a terminal or a service is the daemon's to answer.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.on("disconnect", () => process.exit(1));
process.stdout.on("error", () => process.exit(1));
process.once("message", (request) => void answer(request as CertifyRequest));
