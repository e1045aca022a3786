import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { startDaemon, startSandbox } from "../support/crmsync.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { waitFor } from "../support/wait-for.ts";

/** Takes every request and never answers. */
async function hangingCrm() {
  let requests = 0;
  const server = createServer(() => (requests += 1));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests: () => requests,
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

it("a CRM that does not answer keeps no request to the service from being settled", async () => {
  using crm = await hangingCrm();
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ fault: "latency", ms: 1000, method: "POST", times: 10_000 }),
  });
  await using daemon = await startDaemon({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: "100000",
    QUOTA_BURST: "1000",
    QUOTA_BURST_MS: "100",
    HUBSPOT_TOKEN: "any",
    HUBSPOT_API_URL: crm.url,
  });
  const thin = personEvent("7", {}, { data: { fetch: "hubspot" } });
  await daemon.push([thin, ...Array.from({ length: 300 }, (_, n) => personEvent(`r${n}`))]);
  await waitFor(() => crm.requests() > 0, { what: "the CRM is asked" });
  const inFlight = () => redis.client.llen("{crmsync}:sync:active");
  await waitFor(async () => (await inFlight()) > 3, { what: "requests are under way" });
  daemon.process.kill("SIGTERM");
  await daemon.process.ended;
  expect(await inFlight()).toBe(0);
  const rows = Object.values(await redis.client.hgetall("{crmsync}:ledger"));
  expect(rows.filter((row) => (JSON.parse(row) as { u?: 1 }).u === 1)).toEqual([]);
});
