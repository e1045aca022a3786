/** A replica takes over that lacks the last writes of its primary. */
import { expect, it } from "vitest";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { ownRedis } from "../support/own-redis.ts";
import { people, personEvent } from "../support/person-event.ts";
import { tcpSwitch } from "../support/tcp-switch.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const SECTION = "docs/runbook.md#the-ledger-and-the-service-disagree";

const LIMITS = ["--per-hour", "1000", "--hour-ms", "60000", "--burst", "8", "--burst-ms", "3000"];
const QUOTA = {
  QUOTA_PER_HOUR: "1000",
  QUOTA_HOUR_MS: "60000",
  QUOTA_BURST: "8",
  QUOTA_BURST_MS: "3000",
  QUOTA_PACING: "burst",
  // Long enough for each reply, since requests are counted; a failed update waits as long for its retry.
  SERVICE_TIMEOUT_MS: "5000",
};

async function isTold(daemon: DaemonProcess): Promise<boolean> {
  const { findings } = await daemon.status();
  return findings.some(
    ({ runbook, says }) => runbook === SECTION && /went back to an older state/.test(says),
  );
}

async function failUpdates(sandbox: SandboxProcess, path: string): Promise<() => Promise<void>> {
  const armed = await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ fault: "error", status: 503, times: 1000, method: "PUT", path }),
  });
  const { id } = (await armed.json()) as { id: number };
  return async () => void (await fetch(`${sandbox.faultsUrl}/faults/${id}`, { method: "DELETE" }));
}

it("a replica without the last writes takes over: nothing stale, no 429, and what is lost is reported", async () => {
  await using primary = await ownRedis();
  const { port } = new URL(primary.url);
  await using replica = await ownRedis({ replicaof: `127.0.0.1 ${port}` });
  await using network = await tcpSwitch(primary.url);
  await using sandbox = await startSandbox({ limits: LIMITS, flags: ["--policy", "sliding"] });
  await using daemon = await startDaemon(envFor(sandbox, { ...QUOTA, REDIS_URL: network.url }));
  await daemon.push([personEvent("1"), personEvent("waits")]);
  await waitUntilSettled(daemon);
  // This older state waits for its retry in both servers.
  const serveUpdates = await failUpdates(sandbox, "/v1.1/business-relations/waits");
  await daemon.push([personEvent("waits", { firstName: "Older" })]);
  await waitFor(async () => (await daemon.metric("crmsync_retries_total")) > 0, {
    what: "a retry",
  });
  expect(await primary.client.wait(1, 10_000)).toBe(1);

  await replica.client.replicaof("NO", "ONE");
  await serveUpdates();
  await daemon.push([
    personEvent("1", { firstName: "Eda" }),
    personEvent("waits", { firstName: "Newer" }),
    ...people(6, "lost"),
  ]);
  await waitUntilSettled(daemon);
  expect((await sandbox.requests())["update 200"]).toBe(2);
  // The burst is spent, and only the primary knows it.
  await primary.kill();
  network.moveTo(replica.url);
  await waitFor(async () => (await daemon.push(people(6, "next"))).ok, { what: "accepted again" });
  await waitFor(() => isTold(daemon), { what: "status tells it" });
  // The replica's ledger says that it is there already.
  await daemon.push([personEvent("1")]);
  await waitUntilSettled(daemon);
  expect((await sandbox.requests())["update 200"]).toBe(3);
  // An export of the CRM costs nothing for what was sent before.
  await daemon.push(people(6, "lost"));
  await waitUntilSettled(daemon);
  const requests = await sandbox.requests();
  expect(requests["update 200"]).toBe(3);
  expect(Object.keys(requests).filter((request) => / (409|429)$/.test(request))).toEqual([]);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(14);
  expect(relations.get("1")?.["firstName"]).toBe("Ada");
  expect(relations.get("waits")?.["firstName"]).toBe("Newer");
});
