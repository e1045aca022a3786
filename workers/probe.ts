/**
 * Probes a service that denies access: one cheap request, at growing pauses and at once when the
 * token has changed, until the service grants access again.
 */
import type { Permit } from "../src/quota/permit.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often the denial and the token are checked, ms. */
const CHECK_MS = 1000;

export function startProbing(runtime: Runtime, access: ServiceAccess): Polling {
  const { denial, throttle, log } = runtime;
  let token = access.token();
  return startPolling({
    everyMs: CHECK_MS,
    async step(signal) {
      const changed = access.token() !== token;
      token = access.token();
      if ((await denial.current()) === undefined || !(await denial.claimProbe(changed))) return;
      await probe(runtime, access, await access.quota.acquire("live", signal));
    },
    onError: (error) =>
      throttle("probe", (suppressed) => log.warn({ err: error, suppressed }, "probe.failed")),
  });
}

async function probe(runtime: Runtime, access: ServiceAccess, permit: Permit): Promise<void> {
  const { denial, log } = runtime;
  const reply = await access.client.schemaConfig(permit);
  switch (reply.kind) {
    case "denied":
      return access.denied(reply);
    case "schema":
    case "rejected":
      if (await denial.end()) log.info({}, "service.accepted_again");
      return;
    // These say nothing about the denial.
    case "throttled":
    case "unavailable":
      return;
  }
}
