import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import {
  personEvent,
  startDaemon,
  startSandbox,
  tempDir,
  waitUntilSettled,
} from "../support/crmsync.ts";
import { spawnCrmsync } from "../support/process.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

test("a value that the tenant has taken off its list costs one refusal, and no more", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  const wide = ["--per-hour", "1000000", "--burst", "100000"];
  await using sandbox = await startSandbox(wide, db);
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
    { what: "the service refuses" },
  );
  await waitFor(async () => (await configs()) > before, {
    what: "the lists are asked for again",
    deadlineMs: 30_000,
  });
  const refused = await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" });
  await waitFor(
    async () => {
      await daemon.push([personEvent("3", { service })]);
      return (await daemon.metric("crmsync_rejected_total", { reason: "invalid" })) >= 1;
    },
    { what: "it is held back here", deadlineMs: 30_000 },
  );
  expect(
    await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" }),
  ).toBeLessThanOrEqual(refused + 1);
});
