/** Releases and drops held changes; each act is recorded in the step that does it. */
import type { Act } from "../state/audit-acts.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { originOf } from "./origin.ts";

type Decide = (
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
  details?: Act["details"],
) => Promise<number>;

const decide =
  (what: "release" | "drop"): Decide =>
  async ({ auditActs, heldTerminations }, by, found, details) => {
    let done = 0;
    for (const one of found) {
      const { id, source } = originOf(one);
      const { crmCode, version } = one;
      const act: Act = { act: `held.${what}`, by, details, crmCode, event: { id, source } };
      if (!(await heldTerminations[what](crmCode, await auditActs.callsOf(act), version))) continue;
      await auditActs.note(act);
      done += 1;
    }
    return done;
  };

/** @returns how many were still held. */
export const releaseHeld = decide("release");
export const dropHeld = decide("drop");
