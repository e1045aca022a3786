/** Releases and drops held terminations; each act is recorded in the step that does it. */
import type { Act } from "../state/audit-acts.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { originOf } from "./origin.ts";

/** Pointer jobs that are added in one round trip. */
const CHUNK = 500;

/** @returns how many were still held. */
export async function releaseHeld(
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
): Promise<number> {
  const { auditActs, demand, heldTerminations, pointers } = stores;
  let released = 0;
  for (let from = 0; from < found.length; from += CHUNK) {
    const chunk = found.slice(from, from + CHUNK);
    const lanes = await Promise.all(
      chunk.map(async (one) => {
        const { crmCode } = one;
        const act = actOn(one, "held.release", by);
        const lane = await heldTerminations.release(crmCode, auditActs.textOf(act));
        if (lane === undefined) return [];
        auditActs.note(act);
        return [{ crmCode, lane }];
      }),
    );
    const records = lanes.flat();
    await demand.changed(records);
    await pointers.add(records);
    released += records.length;
  }
  return released;
}

/** @returns how many were still held. */
export async function dropHeld(
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
): Promise<number> {
  const { auditActs, heldTerminations } = stores;
  let dropped = 0;
  for (const one of found) {
    const act = actOn(one, "held.drop", by);
    if (!(await heldTerminations.drop(one.crmCode, auditActs.textOf(act)))) continue;
    auditActs.note(act);
    dropped += 1;
  }
  return dropped;
}

function actOn(held: HeldTermination, act: "held.release" | "held.drop", by: Act["by"]): Act {
  const { id, source } = originOf(held);
  return { act, by, crmCode: held.crmCode, event: { id, source } };
}
