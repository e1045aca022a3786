/** A CRM that is asked for its changes: the service equals it although webhooks get lost, or none comes. */
import { expect, test } from "vitest";
import { CHANGING, openChangingCrm, type ChangingCrm } from "../support/changing-records.ts";
import { CRMS } from "../../src/intake/crm/connectors.ts";
import { POPULATIONS } from "../support/crm-populations.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { openPull, PULLED_CRMS } from "../support/pulled-crms.ts";
import { CRM_APIS } from "../support/crm-stand-ins.ts";
import { startDaemon, type DaemonAccess } from "../support/crmsync.ts";
import { localDaemon, localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RECORDS = 30;
const LOST_PLACE = "docs/runbook.md#a-crm-has-lost-the-place-of-a-pull";

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
  expect(before["create 201"]).toBe((await sandbox.relations()).size);

  crm.change(3, now(), "Changed");
  crm.change(RECORDS, now(), "New");
  crm.delete(5, now());
  await arrives(wanted({ 3: "Changed", [RECORDS]: "New", 5: undefined }));
  const after = await sandbox.requests();
  expect(after["create 201"]).toBe((await sandbox.relations()).size);
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
  const crmLabel = { crm: "hubspot" };
  const found = (result: string) =>
    daemon.metric("crmsync_pull_changes_total", { ...crmLabel, result });
  await waitFor(async () => (await found("missed")) === 1, { what: "the change is counted" });
  expect(await found("new")).toBeGreaterThan(RECORDS);
  const at = await daemon.metric("crmsync_pull_last_success_timestamp_seconds", crmLabel);
  expect(Date.now() / 1000 - at).toBeLessThan(600);
  expect(await daemon.metric("crmsync_pulls_overdue")).toBe(0);

  crm.standIn.faults.push(...Array.from({ length: 20 }, () => ({ status: 503 }) as const));
  const isTold = async () => {
    const { findings } = await daemon.status();
    return findings.some(({ runbook }) => runbook.endsWith("#crmsyncpulloverdue"));
  };
  await waitFor(isTold, { what: "a finding about a CRM that does not answer" });
  crm.standIn.faults.length = 0;
  await waitFor(async () => !(await isTold()), { what: "the end of the finding" });
});

/** A CRM with its changes, whichever of the two stand-ins has it. */
interface AnyCrm extends AsyncDisposable {
  readonly api: Readonly<Record<string, string>>;
  readonly lists: Map<string, unknown>;
  idOf(n: number): string;
  set(n: number, name?: string): void;
  delete(n: number): void;
}

async function anyCrm(name: string): Promise<AnyCrm> {
  const population = POPULATIONS.find(({ crm }) => crm.name === name);
  const kind = CHANGING.find((one) => one.name === name);
  const pulledCrm = PULLED_CRMS.find((one) => one.name === name);
  if (population === undefined) throw new Error(name);
  const { crm: access, idOf, otherList } = population;
  const opened =
    kind === undefined ? pulledCrm && (await openPull(pulledCrm)) : await openChangingCrm(kind, 0);
  if (opened === undefined) throw new Error(name);
  const lists = opened.standIn.list.records;
  if (!lists.has(otherList)) lists.set(otherList, []);
  opened.standIn.list.pageSize = 100;
  return {
    api: { ...access.settings(opened.standIn.url), ...access.secrets },
    lists,
    idOf,
    set: (n, first) =>
      "set" in opened
        ? opened.set(n, now(), first === undefined ? {} : FIRST_NAMES[name]?.(first))
        : opened.change(n, now(), first),
    delete: (n) => opened.delete(n, now()),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

const FIRST_NAMES: Readonly<Record<string, (text: string) => Record<string, unknown>>> = {
  pipedrive: (text) => ({ first_name: text }),
  espocrm: (text) => ({ firstName: text }),
  twenty: (text) => ({ name: { firstName: text, lastName: "Muster" } }),
  wealthbox: (text) => ({ first_name: text }),
  redtail: (text) => ({ first_name: text }),
};

test.for(CRMS.map(({ name }) => name))(
  "%s: a change, a new record and a deletion",
  async (name) => {
    await using dir = await tempDir();
    await using sandbox = await localSandbox();
    await using crm = await anyCrm(name);
    const all = [1, 2, 3, 4];
    for (const n of all) crm.set(n);
    const common = { DATA_DIR: dir.path, MAPPING: name, PULL_FROM: name, PULL_EVERY: "1 s" };
    await using daemon = await localDaemon(envFor(sandbox, { ...crm.api, ...common }));
    const state = async () => {
      const relations = [...(await sandbox.relations())];
      const of = (n: number) => relations.find(([code]) => code.endsWith(crm.idOf(n)))?.[1];
      return [...all, 5].map((n) => {
        const relation = of(n);
        if (relation === undefined) return "none";
        if (relation["relationStatus"] === "terminated") return "terminated";
        const names = `${String(relation["firstName"])} ${String(relation["lastName"])}`;
        return names.includes("Changed") ? "changed" : "there";
      });
    };
    const reaches = (wanted: readonly string[]) =>
      waitFor(async () => (await state()).join() === wanted.join(), {
        what: `${name}: ${wanted.join()}`,
      });
    await reaches(["there", "there", "there", "there", "none"]);
    await pulled(daemon, name);
    crm.set(2, "Changed");
    crm.set(5);
    crm.delete(4);
    await reaches(["there", "changed", "there", "terminated", "there"]);
    const requests = await sandbox.requests();
    // No request beside those of the net changes; the stand-in may have a record of its own.
    const { size } = await sandbox.relations();
    expect([requests["create 201"], requests["update 200"]]).toEqual([size, 2]);
  },
);

test("after a break of more than two weeks all records are listed, and a finding says what may be missed", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const { api, crm } = await hubspotWith(RECORDS);
  await using _crm = crm;
  // One pull lists only some of them.
  crm.standIn.list.pageSize = 1;
  const common = {
    DATA_DIR: dir.path,
    MAPPING: "hubspot",
    PULL_FROM: "hubspot",
    PULL_EVERY: "1 s",
  };
  const env = envFor(sandbox, { ...api, ...common });
  const cursor = JSON.stringify({ since: now() });
  const before = Date.now() - 15 * 86_400_000;
  await newRuntime(env).pulls.keep("hubspot", {
    objects: { contact: { cursor }, company: { cursor } },
    since: before,
    at: before,
    nextAt: 0,
    everyMs: 1000,
  });
  await using daemon = await localDaemon(env);
  await waitFor(
    async () => JSON.stringify(await namesAt(sandbox, crm)) === JSON.stringify(wanted()),
    { what: "the service equals the CRM" },
  );
  const { findings, pulls } = await waitFor(
    async () => {
      const status = await daemon.status();
      return Date.parse(status.pulls["hubspot"]?.lastPullAt ?? "") > before ? status : undefined;
    },
    { what: "the end of the listing" },
  );
  expect(pulls["hubspot"]?.listed).toBe(null);
  expect(findings.map(({ runbook }) => runbook)).toContain(LOST_PLACE);
});

test("the cursor of a clock that was ahead hides no change", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const { api, crm } = await hubspotWith(RECORDS);
  await using _crm = crm;
  const common = { DATA_DIR: dir.path, MAPPING: "hubspot", PULL_FROM: "hubspot" };
  const env = envFor(sandbox, { ...api, ...common });
  const ahead = Date.now() + 3_600_000;
  const cursor = JSON.stringify({ since: new Date(ahead).toISOString() });
  const objects = { contact: { cursor }, company: { cursor } };
  await newRuntime(env).pulls.keep("hubspot", {
    objects,
    since: ahead,
    at: ahead,
    nextAt: ahead,
    everyMs: 1000,
  });
  await using daemon = await localDaemon(env);
  await waitFor(
    async () => JSON.stringify(await namesAt(sandbox, crm)) === JSON.stringify(wanted()),
    { what: "the service equals the CRM" },
  );
  await waitFor(
    async () => (await daemon.status()).findings.some(({ runbook }) => runbook === LOST_PLACE),
    { what: "the finding" },
  );
});

test("after a failure the next try comes after 30 s, also if a clock that was ahead has noted the last pull", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const { api, crm } = await hubspotWith(RECORDS);
  await using _crm = crm;
  const common = { DATA_DIR: dir.path, MAPPING: "hubspot", PULL_FROM: "hubspot" };
  const env = envFor(sandbox, { ...api, ...common });
  const ahead = Date.now() + 3_600_000;
  const times = { since: ahead, at: ahead, nextAt: ahead, everyMs: 1000 };
  const { pulls } = newRuntime(env);
  await pulls.keep("hubspot", { objects: {}, ...times });
  crm.standIn.faults.push(...Array.from({ length: 50 }, () => ({ status: 503 }) as const));
  await using _daemon = await localDaemon(env);
  const failed = await waitFor(
    async () => {
      const state = await pulls.state("hubspot");
      return state?.failure === undefined ? undefined : state;
    },
    { what: "a pull that has failed" },
  );
  const waits = Object.values(failed.waits ?? {});
  expect(waits.map(({ pauseMs, times }) => [pauseMs, times])).toEqual([
    [30_000, 1],
    [30_000, 1],
  ]);
  expect(failed.nextAt).toBeGreaterThan(Date.now() + 200_000);
  expect(failed.nextAt).toBeLessThan(Date.now() + 300_000);
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
  for (let round = 0; round < 2; round += 1) {
    const reads = crm.standIn.reads.length;
    const daemon = await startDaemon(env);
    // In the middle of a listing, or of a pull.
    await waitFor(() => crm.standIn.reads.length > reads + round * 3, { what: "a few requests" });
    daemon.process.kill("SIGKILL");
    await daemon.process.ended;
    changed[round] = `Round ${round}`;
    crm.change(round, now(), `Round ${round}`);
    // From the end: the stand-in counts the places of its pages.
    changed[RECORDS - 1 - round] = undefined;
    crm.delete(RECORDS - 1 - round, now());
  }
  await using daemon = await localDaemon(env);
  await waitFor(
    async () =>
      JSON.stringify(await namesAt(sandbox, crm)) === JSON.stringify(wanted(changed)) &&
      (await daemon.status()).backlog.live.records === 0,
    { what: "the service equals the CRM" },
  );
  await pulled(daemon, "hubspot");
  const requests = await sandbox.requests();
  expect(requests["create 201"]).toBe((await sandbox.relations()).size);
  // Two changes and two deletions, of which some came before their record was sent.
  expect(requests["update 200"] ?? 0).toBeLessThanOrEqual(4);
  expect(requests["create 409"] ?? 0).toBeLessThanOrEqual(4);
});
