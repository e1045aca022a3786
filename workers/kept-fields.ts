/**
 * Tells all processes which fields the mapping keeps. A process with the role intake decides it: the
 * others may run without the mapping.
 */
import type { Role } from "../src/state/heartbeats.ts";
import type { Runtime } from "./runtime.ts";

export async function adoptKeptFields(
  { keptFields, ledger, log, mapping }: Runtime,
  roles: ReadonlySet<Role>,
): Promise<void> {
  if (!roles.has("intake")) return;
  const differ = await keptFields.adopt(mapping.keeps);
  // The ledger's fingerprints leave out other fields. A crash before this line costs requests alone.
  if (differ && (await ledger.forgetAll()) > 0) log.info({}, "mapping.kept_fields_changed");
}
