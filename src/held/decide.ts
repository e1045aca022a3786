/** Releases and drops held changes; each act is recorded in the step that does it. */
import type { Act } from "../state/audit-acts.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { originOf } from "./origin.ts";

/** @returns how many were still held. */
export async function releaseHeld(
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
  details?: Act["details"],
): Promise<number> {
  const { auditActs, heldTerminations } = stores;
  let released = 0;
  for (const one of found) {
    const act = actOn(one, "held.release", by, details);
    if (
      (await heldTerminations.release(one.crmCode, await auditActs.callsOf(act), one.version)) ===
      undefined
    )
      continue;
    auditActs.note(act);
    released += 1;
  }
  return released;
}

/** @returns how many were still held. */
export async function dropHeld(
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
  details?: Act["details"],
): Promise<number> {
  const { auditActs, heldTerminations } = stores;
  let dropped = 0;
  for (const one of found) {
    const act = actOn(one, "held.drop", by, details);
    if (!(await heldTerminations.drop(one.crmCode, await auditActs.callsOf(act), one.version)))
      continue;
    auditActs.note(act);
    dropped += 1;
  }
  return dropped;
}

function actOn(
  held: HeldTermination,
  act: "held.release" | "held.drop",
  by: string,
  details: Act["details"],
): Act {
  const { id, source } = originOf(held);
  return { act, by, details, crmCode: held.crmCode, event: { id, source } };
}
