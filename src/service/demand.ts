/**
 * Counts the records that changes arrive for, so that pacing knows what is coming. Whoever stages
 * a change counts it once, whether or not it coalesced: how many requests a flow would need must
 * not depend on how fast it is being served. A HyperLogLog per slice counts a record once per
 * slice, keeps no crmCode, and adding to it is one command that fits into any script.
 */
import { SLICES_KEPT, sliceMs } from "../spec/demand.ts";
import { quotaKeys } from "./quota-keys.ts";

/** Where and for how long the changes of one moment are counted: `PFADD key crmCode`, `PEXPIRE key ttlMs`. */
export function demandSlice(prefix: string, hourMs: number, now: number) {
  const slice = Math.floor(now / sliceMs(hourMs));
  return {
    key: `${quotaKeys(prefix).demand}${slice}`,
    ttlMs: Math.ceil((SLICES_KEPT + 3) * sliceMs(hourMs)),
  };
}
