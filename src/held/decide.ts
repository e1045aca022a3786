/** Releases and drops held terminations; each act is recorded before it is done. */
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
  const { demand, heldTerminations, pointers } = stores;
  let released = 0;
  for (let from = 0; from < found.length; from += CHUNK) {
    const chunk = found.slice(from, from + CHUNK);
    await Promise.all(chunk.map((one) => recordHeldAct(stores, "held.release", by, one)));
    const lanes = await Promise.all(
      chunk.map(async ({ crmCode }) => {
        const lane = await heldTerminations.release(crmCode);
        return lane === undefined ? [] : [{ crmCode, lane }];
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
  let dropped = 0;
  for (const one of found) {
    await recordHeldAct(stores, "held.drop", by, one);
    dropped += (await stores.heldTerminations.drop(one.crmCode)) ? 1 : 0;
  }
  return dropped;
}

function recordHeldAct(
  { auditActs }: Stores,
  act: "held.release" | "held.drop",
  by: Act["by"],
  held: HeldTermination,
): Promise<void> {
  const { id, source } = originOf(held);
  return auditActs.record({ act, by, crmCode: held.crmCode, event: { id, source } });
}
