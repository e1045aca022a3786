/** Names of records in keys and ids, from which a crmCode or a subject cannot be read. */
import { hash } from "node:crypto";

/** SHA-256 in base64url. */
export const digestOf = (name: string): string => hash("sha256", name, "base64url");

let last = { crmCode: "", digest: digestOf("") };

/** As `digestOf`, made once for calls about the same record that follow each other. */
export function digestOfRecord(crmCode: string): string {
  if (last.crmCode !== crmCode) last = { crmCode, digest: digestOf(crmCode) };
  return last.digest;
}
