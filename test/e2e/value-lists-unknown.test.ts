/** While the tenant's value lists are not known, what needs them waits, and nothing else. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const SCHEMA_CONFIG = "/v1.1/business-relations/schema-config";

test.for([
  ["a payload", "business-relation", { service: ["white_glove"] }],
  // A mapping leaves out what it believes not to be allowed.
  ["a mapped record", undefined, { service: "white_glove" }],
] as const)("%s with the tenant's own values waits for the lists", async ([, preset, fields]) => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  const lists = join(dir.path, "lists.json");
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(lists, JSON.stringify({ service: ["white_glove"] }));
  await writeFile(mapping, personMapping("service: service"));
  await using sandbox = await localSandbox({ db });
  await using values = localCrmsync(["sandbox", "values", "set", lists, "--db", db]);
  expect(await values.ended).toEqual({ code: 0, signal: null });
  const endFault = await armFault(sandbox, { fault: "error", status: 503, path: SCHEMA_CONFIG });

  await using daemon = await localDaemon(envFor(sandbox, { MAPPING: preset ?? mapping }));
  await daemon.push([personEvent("needs", fields), personEvent("other")]);
  await waitFor(async () => (await sandbox.relations()).has("other"), {
    what: "the other arrives",
  });
  expect((await sandbox.requests())["schema-config 200"] ?? 0).toBe(0);
  const section = "docs/runbook.md#the-value-lists-are-not-known";
  const told = async () =>
    (await daemon.status()).findings.find(({ runbook }) => runbook === section)?.says;
  await expect.poll(told).toMatch(/^1 event waits for the tenant's value lists/);

  await endFault();
  await waitFor(
    async () => {
      const relation = (await sandbox.relations()).get("needs");
      return JSON.stringify(relation?.["service"]) === '["white_glove"]';
    },
    // The pause between two requests doubles with each that fails.
    { what: "the value arrives" },
  );
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});
