/** Makes the signed certificate of a month: the file, and its line in the audit trail. */
import { resolve } from "node:path";
import { signingKeyOf } from "../base/secret-variable.ts";
import { UserError } from "../base/user-error.ts";
import { VERSION } from "../base/version.ts";
import type { Stores } from "../operate/status/stores.ts";
import { whereOf } from "../people/audit/file-sink.ts";
import { trailFiles, verifyFiles } from "../people/audit/verify-files.ts";
import { collect, periodOf, type Certificate, type Trail } from "./collect.ts";
import { pageOf } from "./page.ts";
import { hashOfFile, jsonOf, keyIdOf, seal } from "./seal.ts";

export interface CertifyRequest {
  /** `2026-11`; undefined: the present one. */
  readonly month: string | undefined;
  readonly format: "html" | "json";
  readonly by: string;
  /** Of the audit trail, the oldest first; undefined: AUDIT_LOG and what it was rotated to. */
  readonly files?: readonly string[] | undefined;
}

export interface Made {
  readonly certificate: Certificate;
  readonly file: string;
  /** Names the key that has signed it. */
  readonly keyId: string;
}

/**
 * Sends no request to the service.
 * @param keep gets the file before the audit trail gets its line: what was not kept has none
 * @throws UserError without CERTIFY_KEY, for a month that is none, and where the trail cannot be read
 */
export async function makeCertificate(
  stores: Stores,
  { by, files, format, month }: CertifyRequest,
  keep: (made: Made) => Promise<void>,
): Promise<Made> {
  const text = stores.config.secrets.CERTIFY_KEY?.value();
  const key = text === undefined ? undefined : signingKeyOf(text);
  if (key === undefined) {
    throw new UserError(
      "CERTIFY_KEY is not set, which signs the certificate: make a key (openssl genpkey -algorithm ed25519 -out certify.pem) and set CERTIFY_KEY_FILE=certify.pem",
    );
  }
  await stores.clock.measure();
  const period = periodOf(month, stores.clock.now());
  if (period === undefined) throw new UserError("the month must be one that has begun, as 2026-11");
  const certificate = await collect(stores, period, await trailOf(stores, files), {
    by,
    version: VERSION,
  });
  const keyId = keyIdOf(key);
  const file = seal(format === "json" ? jsonOf(certificate) : pageOf(certificate, keyId), key);
  const made = { certificate, file, keyId };
  await keep(made);
  const details = {
    month: period.month,
    file: hashOfFile(file),
    key: keyId,
    exceptions: certificate.state?.exceptions.length ?? 0,
  };
  await stores.auditActs.record({ act: "certify", by, details });
  return made;
}

/** Undefined: no process has an audit trail, as far as this one can see. */
async function trailOf(
  { auditActs, config }: Stores,
  given: readonly string[] | undefined,
): Promise<Trail | undefined> {
  if (given === undefined && config.AUDIT_LOG === undefined) return undefined;
  const files = given ?? (await trailFiles(config));
  const heads = await auditActs.heads();
  const verified = await verifyFiles(config, files, async () => heads);
  const here = new Set(files.map((file) => whereOf(resolve(file))));
  const chains = new Set(verified.chains.map(({ head }) => head.chain));
  const elsewhere = [...heads].flatMap(([chain, { at, where }]) =>
    chains.has(chain) || here.has(where) ? [] : [{ at, where }],
  );
  return { files, verified, elsewhere };
}
