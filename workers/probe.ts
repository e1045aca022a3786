/**
 * Probes a service that denies access: one cheap request, at growing pauses and at once when the
 * token has changed, until the service grants access again. A single record that is answered 403
 * leads to one probe too: only if the probe is refused as well, access counts as denied.
 */
import type { Permit } from "../src/core/quota/permit.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

/** @param hasNewToken whether no process has sent with this process's token before. */
export function probeDenied(
  { denial, log }: Uses<"denial" | "log">,
  access: ServiceAccess,
  hasNewToken: boolean,
): Step {
  let token = hasNewToken ? undefined : access.token();
  return async (signal) => {
    const changed = access.token() !== token;
    token = access.token();
    const denied = (await denial.current()) !== undefined;
    if (!(await (denied ? denial.claimProbe(changed) : denial.claimAskedProbe()))) return;
    await probe({ denial, log }, access, await access.quota.acquire("live", signal));
  };
}

async function probe(
  { denial, log }: Uses<"denial" | "log">,
  access: ServiceAccess,
  permit: Permit,
): Promise<void> {
  const reply = await access.client.schemaConfig(permit, { anyTenant: true });
  const end = async () => {
    if (await denial.end()) log.info({}, "service.accepted_again");
  };
  switch (reply.kind) {
    case "denied":
      return access.denied(reply);
    case "schema":
    case "rejected":
      return end();
    case "unavailable":
      // Every 403 to a probe denies all: it asks for nothing but access.
      if (reply.status === 403) return access.denied({ kind: "denied", cause: "address" });
      // A service without this endpoint refuses the path, not us. If it does refuse us, the next request shows it.
      return reply.reason === "undeclared_status" ? end() : denial.repeatProbe();
    case "throttled":
      return denial.repeatProbe();
  }
}
