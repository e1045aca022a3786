/** A CRM that is asked for its changes: the service equals it although webhooks get lost, or none comes. */
import { expect, test } from "vitest";
import { CHANGING, openChangingCrm, type ChangingCrm } from "../support/changing-records.ts";
import { CRM_APIS } from "../support/crm-stand-ins.ts";
import { startDaemon, type DaemonAccess } from "../support/crmsync.ts";
import { localDaemon, localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RECORDS = 30;

async function hubspotWith(records: number) {
  const kind = CHANGING.find(({ name }) => name === "hubspot");
  const access = CRM_APIS.find(({ name }) => name === "hubspot");
  if (kind === undefined || access === undefined) throw new Error("no stand-in of HubSpot");
  const crm = await openChangingCrm(kind, records);
  crm.standIn.list.records.set("companies", []);
  return { crm, api: { ...access.settings(crm.standIn.url), ...access.secrets } };
}

/** The last names of the relations that are not terminated, by the number of the record. */
async function namesAt(sandbox: LocalSandbox, crm: ChangingCrm) {
  const relations = await sandbox.relations();
  const names: Record<number, unknown> = {};
  for (let n = 0; n <= RECORDS; n += 1) {
    const found = [...relations].find(([code]) => code.endsWith(crm.idOf(n)));
    if (found !== undefined && found[1]["relationStatus"] !== "terminated") {
      names[n] = found[1]["lastName"];
    }
  }
  return names;
}

const wanted = (changed: Readonly<Record<number, string | undefined>> = {}) => {
  const all = Object.fromEntries(Array.from({ length: RECORDS }, (_, n) => [n, `n${n}`]));
  return Object.fromEntries(
    Object.entries({ ...all, ...changed }).filter(([, name]) => name !== undefined),
  );
};

const now = () => new Date().toISOString();

const pulled = (daemon: DaemonAccess, crm: string) =>
  waitFor(async () => (await daemon.status()).pulls[crm]?.lastPullAt ?? undefined, {
    what: "a pull that has brought everything",
  });

test("the first pull brings all records, later ones what has changed and what was deleted", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const { api, crm } = await hubspotWith(RECORDS);
  await using _crm = crm;
  const env = envFor(sandbox, {
    ...api,
    DATA_DIR: dir.path,
    MAPPING: "hubspot",
    PULL_FROM: "hubspot",
    PULL_EVERY: "1 s",
    HUBSPOT_WEBHOOK_SECRET: "webhook-secret-of-24-characters",
  });
  await using daemon = await localDaemon(env);
  const arrives = (names: unknown) =>
    waitFor(async () => JSON.stringify(await namesAt(sandbox, crm)) === JSON.stringify(names), {
      what: "the service equals the CRM",
    });
  await arrives(wanted());
  await pulled(daemon, "hubspot");
  const before = await sandbox.requests();
  expect(before["create 201"]).toBe(RECORDS);

  crm.change(3, now(), "Changed");
  crm.change(RECORDS, now(), "New");
  crm.delete(5, now());
  await arrives(wanted({ 3: "Changed", [RECORDS]: "New", 5: undefined }));
  const after = await sandbox.requests();
  expect(after["create 201"]).toBe(RECORDS + 1);
  expect(after["update 200"]).toBe(2);

  // As if this change had been pulled two minutes after it was made: no webhook has told of it.
  const late = new Date(Date.now() - 120_000).toISOString();
  const about = { specversion: "1.0", source: "/pull/hubspot", type: "crm.record.updated" };
  const data = { record: { id: "77", properties: { firstname: "Ada", lastname: "Late" } } };
  await daemon.push([{ ...about, id: "1", subject: "contact/77", time: late, data }]);
  const status = await waitFor(
    async () => {
      const read = await daemon.status();
      return read.pulls["hubspot"]?.missedByWebhooks === 1 ? read : undefined;
    },
    { what: "what the webhooks have missed" },
  );
  expect(status.findings.map(({ runbook }) => runbook)).toContain(
    "docs/runbook.md#webhooks-get-lost",
  );
  expect(status.sources).toEqual({});

  crm.standIn.faults.push(...Array.from({ length: 20 }, () => ({ status: 503 }) as const));
  const isTold = async () => {
    const { findings } = await daemon.status();
    return findings.some(({ runbook }) => runbook.endsWith("#crmsyncpulloverdue"));
  };
  await waitFor(isTold, { what: "a finding about a CRM that does not answer" });
  crm.standIn.faults.length = 0;
  await waitFor(async () => !(await isTold()), { what: "the end of the finding" });
});

test("a daemon that is killed again and again misses nothing and sends nothing twice", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const { api, crm } = await hubspotWith(RECORDS);
  await using _crm = crm;
  crm.standIn.list.pageSize = 7;
  const env = envFor(sandbox, {
    ...api,
    DATA_DIR: dir.path,
    MAPPING: "hubspot",
    PULL_FROM: "hubspot",
    PULL_EVERY: "1 s",
  });
  const changed: Record<number, string | undefined> = {};
  for (let round = 0; round < 4; round += 1) {
    const reads = crm.standIn.reads.length;
    const daemon = await startDaemon(env);
    // In the middle of a listing, or of a pull.
    await waitFor(() => crm.standIn.reads.length > reads + round * 2, { what: "a few requests" });
    daemon.process.kill("SIGKILL");
    await daemon.process.ended;
    changed[round] = `Round ${round}`;
    crm.change(round, now(), `Round ${round}`);
    // From the end: the stand-in counts the places of its pages.
    changed[RECORDS - 1 - round] = undefined;
    crm.delete(RECORDS - 1 - round, now());
  }
  await using daemon = await startDaemon(env);
  await waitFor(
    async () =>
      JSON.stringify(await namesAt(sandbox, crm)) === JSON.stringify(wanted(changed)) &&
      (await daemon.status()).backlog.live.records === 0,
    { what: "the service equals the CRM", deadlineMs: 120_000 },
  );
  await pulled(daemon, "hubspot");
  const requests = await sandbox.requests();
  expect(requests["create 201"]).toBeLessThanOrEqual(RECORDS);
  // Four changes and four deletions, of which some came before their record was sent.
  expect(requests["update 200"] ?? 0).toBeLessThanOrEqual(8);
  expect(requests["create 409"] ?? 0).toBeLessThanOrEqual(4);
});
