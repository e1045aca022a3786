/**
 * Knocks on a closed door with one cheap request, at growing pauses and at once when the token
 * has changed, until the service lets us in again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Permit } from "../src/quota/permit.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess, ServiceAddress } from "./service-access.ts";

/** How often the doors and the token are looked at, ms. */
const LOOK_MS = 1000;

export async function startProbing(
  runtime: Runtime,
  access: ServiceAccess,
  address: ServiceAddress,
  signal: AbortSignal,
): Promise<void> {
  const { denial, throttle, log } = runtime;
  let token = address.token();
  while (!signal.aborted) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    try {
      const changed = address.token() !== token;
      token = address.token();
      if ((await denial.current()) === undefined || !(await denial.claimProbe(changed))) continue;
      await probe(runtime, access, await access.quota.acquire("live", signal));
    } catch (error) {
      if (signal.aborted) return;
      throttle("probe", (held) => log.warn({ err: error, held }, "probe.failed"));
    }
  }
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
    // These say nothing about the door.
    case "throttled":
    case "unavailable":
      return;
  }
}
