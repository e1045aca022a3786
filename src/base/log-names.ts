/** How log lines and spans name what they may not reveal. */
import { hash } from "node:crypto";

/** A crmCode identifies a person. `printf %s CODE | sha256sum | cut -c1-12` gives the same hash. */
export const hashOf = (crmCode: string): string => hash("sha256", crmCode, "hex").slice(0, 12);
