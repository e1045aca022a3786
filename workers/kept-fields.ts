/**
 * Tells all processes which fields the mapping keeps. Intake decides it: a process without it may run
 * without the mapping.
 */
import type { Mapping } from "../src/mapping/mapping.ts";
import type { Keeps } from "../src/sync/keeps.ts";
import type { Runtime } from "./runtime.ts";

/** What this process has told. A module that a new thread has read again may keep other fields. */
const told = new WeakMap<Mapping, Keeps>();

export async function adoptKeptFields({
  keptFields,
  ledger,
  log,
  mapping,
}: Pick<Runtime, "keptFields" | "ledger" | "log" | "mapping">): Promise<void> {
  const { keeps } = mapping;
  if (told.get(mapping) === keeps) return;
  const differ = await keptFields.adopt(keeps);
  // The ledger's fingerprints leave out other fields. A crash before this line costs requests alone.
  if (differ && (await ledger.forgetAll()) > 0) log.info({}, "mapping.kept_fields_changed");
  told.set(mapping, keeps);
}
