import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { spawnCrmsync } from "../support/process.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

test("a value that the tenant has removed from its list is soon rejected without a request", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  await using sandbox = await startSandbox({ db });
  await using daemon = await startDaemon({
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: "1000",
    QUOTA_BURST: "100",
    QUOTA_BURST_MS: "100",
    QUOTA_HOUR_MS: "60000",
  });
  const service = ["family_office"];
  await daemon.push([personEvent("1", { service })]);
  await waitUntilSettled(daemon);
  const configs = async () => (await sandbox.requests())["schema-config 200"] ?? 0;
  const before = await configs();
  const lists = join(dir.path, "lists.json");
  await writeFile(lists, JSON.stringify({ service: ["philanthropy_advisory"] }));
  await using values = spawnCrmsync(["sandbox", "values", "set", lists, "--db", db]);
  expect(await values.ended).toEqual({ code: 0, signal: null });

  await waitFor(
    async () => {
      await daemon.push([personEvent("2", { service })]);
      return (await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" })) >= 1;
    },
    { what: "the service rejects it" },
  );
  await waitFor(async () => (await configs()) > before, {
    what: "the lists are fetched again",
    deadlineMs: 30_000,
  });
  const rejected = await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" });
  await waitFor(
    async () => {
      await daemon.push([personEvent("3", { service })]);
      return (await daemon.metric("crmsync_rejected_total", { reason: "invalid" })) >= 1;
    },
    { what: "the change is rejected before a request", deadlineMs: 30_000 },
  );
  expect(
    await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" }),
  ).toBeLessThanOrEqual(rejected + 1);
});
