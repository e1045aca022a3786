/** A deletion ends its relation whatever the service holds of it, or a dead letter says why it cannot. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { plant, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const person = (crmCode: string, more: object = {}) => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
  ...more,
});

const deletion = (crmCode: string) =>
  personEvent(crmCode, {}, { type: "crm.record.deleted", data: {} });

async function crmsync(args: string[], env: Record<string, string> = {}) {
  await using command = localCrmsync(args, { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

test("a value that has left the tenant's list, or a required text that is empty, keeps no relation active", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [
    person("branch", { branch: ["geneva", "zurich"] }),
    person("empty", { firstName: "" }),
  ]);
  const db = join(dir.path, "sandbox.sqlite");
  const values = join(dir.path, "values.json");
  await writeFile(values, '{"branch":["zurich"]}');
  const set = await crmsync(["sandbox", "values", "set", values, "--db", db]);
  expect(set.code, set.err).toBe(0);
  await using daemon = await localDaemon(envFor(sandbox));
  await daemon.push([deletion("branch"), deletion("empty")]);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get("branch")).toMatchObject({
    relationStatus: "terminated",
    branch: ["zurich"],
  });
  expect(relations.get("empty")).toMatchObject({ relationStatus: "terminated", firstName: "" });
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});

test("a value that leaves the tenant's list while the daemon runs delays the end of a relation, no more", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person("branch", { branch: ["geneva"] })]);
  // Short, so that lists of a second ago may be doubted.
  const env = envFor(sandbox, { QUOTA_HOUR_MS: "60000" });
  await using daemon = await localDaemon(env);
  await using _other = await localDaemon(env);
  await waitFor(async () => (await sandbox.requests())["schema-config 200"] === 1, {
    what: "the value lists are known",
  });
  const values = join(dir.path, "values.json");
  await writeFile(values, '{"branch":["zurich"]}');
  const db = join(dir.path, "sandbox.sqlite");
  const set = await crmsync(["sandbox", "values", "set", values, "--db", db]);
  expect(set.code, set.err).toBe(0);
  await daemon.push([deletion("branch")]);
  await waitFor(async () => (await sandbox.requests())["update 400"] === 1, {
    what: "the service has rejected the value",
  });
  const isEnded = async () =>
    (await sandbox.relations()).get("branch")?.["relationStatus"] === "terminated";
  await waitFor(isEnded, { what: "the relation is terminated" });
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  expect((await sandbox.requests())["update 400"]).toBe(1);
});

test("a relation that no request can name becomes a dead letter, and its plan ends", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person("kept")]);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  await plant(dir, [person("."), person("extra")]);
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.relations === 3, { what: "it is warm" });
  const snapshot = join(dir.path, "snapshot.ndjson");
  await writeFile(snapshot, `${JSON.stringify(personEvent("kept"))}\n`);
  const applied = await reconcile(env, [
    snapshot,
    "--apply",
    "--yes",
    "--terminate-missing",
    "--include-foreign",
    "--max-terminate",
    "10",
  ]);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("extra")).toMatchObject({ relationStatus: "terminated" });
  const { out } = await crmsync(["dead", "show", "."], env);
  expect(out).toContain(
    "no request can be about this relation, because its crmCode must not be a dot",
  );
});
