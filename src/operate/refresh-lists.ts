/** Has a daemon fetch the tenant's value lists now: for the command and the console. */
import type { Stores } from "./status/stores.ts";

/**
 * It costs one request of the daemon. Lists that are not a minute old are fetched once they are.
 * @param by who asks, as the audit trail names people. @returns whether a process runs that can fetch them
 */
export async function refreshLists(
  { auditActs, clock, heartbeats, stateVersion, tenantLists }: Stores,
  by: string,
): Promise<boolean> {
  await stateVersion.require();
  await auditActs.record({ act: "lists.refresh", by });
  await tenantLists.refresh(clock.now());
  return (await heartbeats.running()).some(({ roles }) => roles.includes("sync"));
}
