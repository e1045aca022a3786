/** `owned: false` and `fill: empty` on a killed process: what people edit at the service stays. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled, type SandboxAccess } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { lines, reconcile, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RECORDS = 12;
const numbers = Array.from({ length: RECORDS }, (_, n) => n);

const MAPPING = personMapping(
  "relationshipStatus: { from: stage, owned: false }",
  "maidenName: { owned: false }",
  "phoneNumber: { from: tel, fill: empty }",
);

const recordOf = (n: number, fields: Fields) => ({
  id: `p${n}`,
  firstName: "Ada",
  lastName: "Old",
  stage: "Prospect",
  ...fields,
});
const eventsOf = (fields: Fields) =>
  numbers.map((n) => personEvent(`p${n}`, {}, { data: { record: recordOf(n, fields) } }));

/** A person edits a relation at the service: a PUT beside crmsync. */
async function edit(sandbox: SandboxAccess, relation: Fields, fields: Fields): Promise<void> {
  const response = await fetch(
    `${sandbox.url}/v1.1/business-relations/${String(relation["crmCode"])}`,
    {
      method: "PUT",
      headers: { authorization: `Bearer ${sandbox.token}`, "content-type": "application/json" },
      body: JSON.stringify({ ...relation, ...fields }),
    },
  );
  expect(response.status, await response.text()).toBe(200);
}

const BY_HAND = { relationshipStatus: "Client", maidenName: "Byron" };

test("12 updates and a kill: what was edited by hand stays, and all else is the CRM's", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    STATE_KEY: Buffer.alloc(32, 3).toString("base64"),
    // What the killed process has taken is free again after seconds.
    SERVICE_TIMEOUT_MS: "2000",
  });
  const mapped = { ...env, MAPPING: mapping };
  const count = async (name: RegExp) => {
    const requests = Object.entries(await sandbox.requests());
    return requests.filter(([one]) => name.test(one)).reduce((sum, [, n]) => sum + n, 0);
  };
  {
    await using daemon = await localDaemon(mapped);
    await daemon.push(eventsOf({}));
    await waitUntilSettled(daemon);
  }
  const created = await sandbox.relations();
  expect([...created.values()].map((one) => one["relationshipStatus"])).toEqual(
    numbers.map(() => "Prospect"),
  );
  expect(await count(/^get/i)).toBe(0);
  for (const relation of created.values()) {
    const phone = relation["crmCode"] === "p0" ? {} : { phoneNumber: "+41445550133" };
    await edit(sandbox, relation, { ...BY_HAND, ...phone });
  }

  // The process that sends has no mapping: it learns from the others what to keep.
  const before = await count(/^update/i);
  const slow = { ...env, QUOTA_BURST: "4", QUOTA_BURST_MS: "1000", HTTP_PORT: "0" };
  {
    await using intake = await localDaemon(mapped, new Set(["http", "intake"]));
    await using sync = await startDaemon(slow, ["--roles", "sync"]);
    await intake.push(eventsOf({ lastName: "New", tel: "+352 26 12 34 56", stage: "Contact" }));
    await waitFor(async () => (await count(/^update/i)) > before + 4, { what: "some were sent" });
    sync.process.kill("SIGKILL");
    expect(await count(/^update/i)).toBeLessThan(before + RECORDS);
    await waitFor(async () => (await intake.status()).backlog.inbox === 0, { what: "staged" });
  }
  {
    await using sync = await localDaemon(slow, new Set(["sync"]));
    await waitUntilSettled(sync);
  }
  const relations = await sandbox.relations();
  for (const n of numbers) {
    expect(relations.get(`p${n}`)).toMatchObject({
      ...BY_HAND,
      lastName: "New",
      phoneNumber: n === 0 ? "+35226123456" : "+41445550133",
    });
  }
  // Two requests for an update, and a few more for those that were killed.
  const updates = (await count(/^update/i)) - before;
  expect(updates).toBeGreaterThanOrEqual(RECORDS);
  expect(updates + (await count(/^get/i))).toBeLessThanOrEqual(2 * RECORDS + 20);

  // What only others have changed is no difference: neither for an event, nor for a comparison.
  await using daemon = await localDaemon(mapped);
  const sent = await count(/^(get|update)/i);
  await daemon.push(eventsOf({ lastName: "New", tel: "+352 1", stage: "Investment" }));
  await waitUntilSettled(daemon);
  // A record whose request was killed is sent once more: that request may still take effect.
  expect((await count(/^(get|update)/i)) - sent).toBeLessThanOrEqual(4);
  const snapshot = join(dir.path, "crm.ndjson");
  const records = numbers.map((n) =>
    recordOf(n, { lastName: n < 3 ? "Newer" : "New", tel: "+352 1" }),
  );
  await writeFile(snapshot, lines(records));
  const { code, out, err } = await reconcile(mapped, [snapshot, "--apply", "--yes", "--json"]);
  expect(code, err).toBe(0);
  const [found] = out.split("\n").map((line) => JSON.parse(line) as Fields);
  expect(found).toMatchObject({
    counts: { equal: RECORDS - 3, different: 3 },
    fields: [
      { field: "lastName", changed: 3 },
      { field: "name", changed: 3 },
    ],
    requests: 6,
  });
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p1")).toMatchObject({ ...BY_HAND, lastName: "Newer" });

  // Another mapping than the daemon's compares other fields.
  const other = join(dir.path, "other.yaml");
  await writeFile(other, personMapping());
  const shown = await reconcile({ ...env, MAPPING: other }, [snapshot]);
  expect(shown.out).toContain("It is not saved.");
  const refused = await reconcile({ ...env, MAPPING: other }, [snapshot, "--apply", "--yes"]);
  expect(refused.code).not.toBe(0);
  expect(refused.err).toMatch(/start the daemon with this mapping/);
});
