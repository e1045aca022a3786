/** Names of records in keys and ids, from which a crmCode or a subject cannot be read. */
import { hash } from "node:crypto";

/** SHA-256 in base64url. */
export const digestOf = (name: string): string => hash("sha256", name, "base64url");
