/** Relations made of several objects: a Salesforce contact with its KYC objects and its employer. */
import { createHmac } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { wholeId } from "../../src/intake/crm/salesforce-id.ts";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { CRM_APIS, standInFor, type StandIn } from "../support/crm-stand-ins.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MAPPING = `version: 1
objects:
  - object: Contact
    crmCode: $event.recordId
    with:
      kyc: { object: KYC__c, of: Contact__c, many: true }
      employer: { object: Account, by: AccountId, of: true }
    fields:
      type: { value: Person }
      firstName: FirstName
      lastName: LastName
      taxIdentificationNumber: $string($sum(kyc.Score__c))
      placeOfBirth: $string($count(kyc))
      city: employer.BillingCity
`;

const SECRET = "webhook-secret-of-24-characters";
const PARENTS = 5;
const PARTS_EACH = 100;

/** How long changes of one record are collected. */
const WAIT_MS = 4000;

const idOf = (prefix: string, n: number): string =>
  wholeId(`${prefix}Qk00000${String(n).padStart(5, "0")}`);
const contactId = (n: number) => idOf("003", n);
const partId = (n: number) => idOf("a01", n);
const ACCOUNT = idOf("001", 1);

type Json = Record<string, unknown>;

let dir: TempDir;
let sandbox: SandboxProcess;
let standIn: StandIn;
let daemon: DaemonProcess;
let env: Record<string, string>;

const salesforce = CRM_APIS.find(({ name }) => name === "salesforce");
if (salesforce === undefined) throw new Error("no stand-in");

const recordsOf = (object: string): Json[] => standIn.list.records.get(object) as Json[];
const contactOf = (n: number): Json => ({
  Id: contactId(n),
  AccountId: ACCOUNT,
  FirstName: "Ada",
  LastName: `Muster ${n}`,
  SystemModstamp: "2026-11-16T11:02:10.000+0000",
});

beforeAll(async () => {
  dir = await tempDir();
  sandbox = await startSandbox();
  standIn = await standInFor(salesforce);
  const contacts = Array.from({ length: PARENTS }, (_, n) => contactOf(n));
  const parts = Array.from({ length: PARENTS * PARTS_EACH }, (_, n) => ({
    Id: partId(n),
    Contact__c: contactId(n % PARENTS),
    Score__c: 1,
  }));
  standIn.list.records.set("Contact", contacts).set("KYC__c", parts);
  standIn.list.records.set("Account", [{ Id: ACCOUNT, BillingCity: "Bern" }]);
  await writeFile(join(dir.path, "mapping.yaml"), MAPPING);
  env = envFor(sandbox, {
    MAPPING: join(dir.path, "mapping.yaml"),
    RELATED_WAIT_MS: String(WAIT_MS),
    SALESFORCE_WEBHOOK_SECRET: SECRET,
    ...salesforce.settings(standIn.url),
    ...salesforce.secrets,
  });
  daemon = await startDaemon(env);
});

afterAll(async () => {
  await daemon?.[Symbol.asyncDispose]();
  await sandbox?.[Symbol.asyncDispose]();
  await standIn?.[Symbol.asyncDispose]();
  await dir?.[Symbol.asyncDispose]();
});

let transactions = 0;

/** Change events of these records, as a relay sends them. */
async function send(entityName: string, ids: readonly string[], changeType = "UPDATE") {
  const body = ids.map((id) => {
    transactions += 1;
    const header = {
      entityName,
      recordIds: [id],
      changeType,
      transactionKey: `t${transactions}`,
      sequenceNumber: 1,
    };
    return {
      ChangeEventHeader: { ...header, commitTimestamp: Date.now(), commitNumber: transactions },
    };
  });
  const headers = { authorization: `Bearer ${SECRET}`, "content-type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body) };
  expect((await fetch(`${daemon.url}/webhooks/salesforce`, options)).status).toBe(200);
}

const relation = async (n: number) => (await sandbox.relations()).get(contactId(n));

/** A record is read once after each wait; the kill costs three more. */
const readsWithin = (ms: number): number => 4 + Math.floor(ms / WAIT_MS);

const readsOf = (path: RegExp) =>
  standIn.reads.filter(({ url }) => path.test(decodeURIComponent(url ?? ""))).length;

test("500 changes of parts of 5 records cost a few reads of each; kill -9 in the middle loses none", async () => {
  const began = Date.now();
  const all = recordsOf("KYC__c").map(({ Id }) => String(Id));
  for (let from = 0; from < all.length; from += 100) {
    for (const part of recordsOf("KYC__c").slice(from, from + 100)) part["Score__c"] = 2;
    await send("KYC__c", all.slice(from, from + 100));
    if (from !== 200) continue;
    await waitFor(() => standIn.reads.length > 0, {
      what: "the first requests",
    });
    daemon.process.kill("SIGKILL");
    await daemon.process.ended;
    daemon = await startDaemon(env);
  }
  await waitFor(async () => (await relation(PARENTS - 1)) !== undefined, {
    what: "the relations",
  });
  await waitUntilSettled(daemon);
  for (let n = 0; n < PARENTS; n += 1) {
    expect(await relation(n)).toMatchObject({
      lastName: `Muster ${n}`,
      taxIdentificationNumber: String(2 * PARTS_EACH),
      city: "Bern",
    });
  }
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  const reads = readsOf(/\/sobjects\/Contact\/003/);
  expect(reads).toBeGreaterThanOrEqual(PARENTS);
  const most = readsWithin(Date.now() - began) * PARENTS;
  expect(reads).toBeLessThanOrEqual(most);
  // With the queries for parts, employers and owners, and the descriptions.
  expect(standIn.reads.length).toBeLessThan(6 * most);
});

test("100 changes of parts of one record within the time that it waits cost one read of it", async () => {
  const parent = new RegExp(`/sobjects/Contact/${contactId(0)}`);
  const parts = recordsOf("KYC__c").filter((part) => part["Contact__c"] === contactId(0));
  const before = readsOf(parent);
  for (const part of parts.slice(0, 100)) part["Score__c"] = 4;
  const began = Date.now();
  const score = String(parts.reduce((sum, part) => sum + Number(part["Score__c"]), 0));
  for (let from = 0; from < 100; from += 25) {
    await send(
      "KYC__c",
      parts.slice(from, from + 25).map(({ Id }) => String(Id)),
    );
  }
  const waits = Math.ceil((Date.now() - began) / WAIT_MS);
  await waitFor(async () => (await relation(0))?.["taxIdentificationNumber"] === score, {
    what: "the new score",
  });
  // One wait, unless a busy machine took longer to send them.
  expect(readsOf(parent) - before).toBeLessThanOrEqual(waits);
});

test("a part that gets another owner, or is deleted, changes both", async () => {
  const part = recordsOf("KYC__c")[0];
  if (part === undefined) throw new Error("no part");
  part["Contact__c"] = contactId(1);
  await send("KYC__c", [partId(0)]);
  const counts = async (first: string, second: string) =>
    (await relation(0))?.["placeOfBirth"] === first &&
    (await relation(1))?.["placeOfBirth"] === second;
  await waitFor(() => counts(String(PARTS_EACH - 1), String(PARTS_EACH + 1)), {
    what: "both owners",
  });

  standIn.list.records.set(
    "KYC__c",
    recordsOf("KYC__c").filter(({ Id }) => Id !== partId(0)),
  );
  await send("KYC__c", [partId(0)], "DELETE");
  await waitFor(() => counts(String(PARTS_EACH - 1), String(PARTS_EACH)), {
    what: "the owner without it",
  });
});

test("a change of the employer is one of all who work there; one that cannot be read empties nothing", async () => {
  const [account] = recordsOf("Account");
  if (account === undefined) throw new Error("no account");
  account["BillingCity"] = "Chur";
  standIn.faults.push({ status: 503 }, { status: 503 });
  await send("Account", [ACCOUNT]);
  await waitFor(
    async () => [...(await sandbox.relations()).values()].every(({ city }) => city === "Chur"),
    { what: "the new city" },
  );
  await waitUntilSettled(daemon);
  account["BillingCity"] = null;
  await send("Account", [ACCOUNT]);
  await waitFor(
    async () => [...(await sandbox.relations()).values()].every(({ city }) => city === undefined),
    { what: "no city any more" },
  );
});

test("an owner that the CRM does not have is a dead letter, unless the part was deleted, too", async () => {
  await waitUntilSettled(daemon);
  const orphans = [5000, 5001].map((n) => ({
    Id: partId(n),
    Contact__c: contactId(n),
    Score__c: 1,
  }));
  recordsOf("KYC__c").push(...orphans);
  const old = {
    ChangeEventHeader: {
      entityName: "KYC__c",
      changeType: "UPDATE",
      transactionKey: "o",
      sequenceNumber: 1,
      commitTimestamp: 1_794_826_930_000,
      commitNumber: 1,
    },
  };
  const push = (header: Json) =>
    fetch(`${daemon.url}/webhooks/salesforce`, {
      method: "POST",
      headers: { authorization: `Bearer ${SECRET}`, "content-type": "application/json" },
      body: JSON.stringify({ ChangeEventHeader: { ...old.ChangeEventHeader, ...header } }),
    });
  await push({ recordIds: [partId(5000)] });
  await push({ recordIds: [partId(5001)], changeType: "DELETE", transactionKey: "p" });
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, {
    what: "the dead letter",
  });
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_dead_letters")).toBe(1);
});

test("without an API, an event of a part brings its owner and what belongs to it", async () => {
  const event = (n: number, data: Json) => ({
    specversion: "1.0",
    id: `pushed-${n}`,
    source: "/own-crm",
    type: "crm.record.deleted",
    subject: "KYC__c/9",
    time: new Date().toISOString(),
    data: { of: "Contact/77", ...data },
  });
  const record = { FirstName: "Bea", LastName: "Muster", AccountId: null };
  const { status } = await daemon.push([
    event(1, { record, related: { kyc: [{ Score__c: 7 }], employer: null } }),
  ]);
  expect(status).toBe(202);
  const pushed = async () => (await sandbox.relations()).get("77");
  await waitFor(async () => (await pushed()) !== undefined, {
    what: "the relation",
  });
  expect(await pushed()).toMatchObject({
    lastName: "Muster",
    taxIdentificationNumber: "7",
    relationStatus: "active",
  });
  expect(await pushed()).not.toHaveProperty("city");
  // What does not come is not empty.
  await daemon.push([event(2, { record: { ...record, FirstName: "Eva" } })]);
  await waitFor(async () => (await pushed())?.["firstName"] === "Eva", {
    what: "the name",
  });
  expect(await pushed()).toMatchObject({ taxIdentificationNumber: "7" });

  const refused = await daemon.push([event(3, {})]);
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("must be the whole CRM record of Contact/77");
});

test("a webhook that brings its record alone lets it be read with those that belong to it", async () => {
  const twenty = CRM_APIS.find(({ name }) => name === "twenty");
  if (twenty === undefined) throw new Error("no stand-in");
  await using api = await standInFor(twenty);
  await using service = await localSandbox();
  await using folder = await tempDir();
  const [company, id] = [
    "a2f0b7c4-1111-4e4e-9f9f-000000000001",
    "a2f0b7c4-2222-4e4e-9f9f-000000000002",
  ];
  const person = { id, name: { firstName: "Ada", lastName: "Muster" }, companyId: company };
  const at = new Date().toISOString();
  api.list.records.set("people", [{ ...person, updatedAt: at, deletedAt: null }]);
  api.list.records.set("companies", [{ id: company, address: { addressCity: "Bern" } }]);
  const mapping = join(folder.path, "twenty.yaml");
  await writeFile(
    mapping,
    `version: 1
objects:
  - object: person
    crmCode: $event.recordId
    with:
      company: { object: company, by: companyId }
    fields:
      type: { value: Person }
      firstName: name.firstName
      lastName: name.lastName
      city: company.address.addressCity
`,
  );
  const settings = { ...twenty.settings(api.url), ...twenty.secrets };
  const own = { MAPPING: mapping, DATA_DIR: folder.path, TWENTY_WEBHOOK_SECRET: SECRET };
  await using receiver = await localDaemon(envFor(service, { ...settings, ...own }));
  const body = JSON.stringify({
    eventName: "person.updated",
    record: { ...person, updatedAt: at },
  });
  const timestamp = String(Date.now());
  const signature = createHmac("sha256", SECRET).update(`${timestamp}:${body}`).digest("hex");
  const headers = {
    "content-type": "application/json",
    "x-twenty-webhook-timestamp": timestamp,
    "x-twenty-webhook-signature": signature,
  };
  const options = { method: "POST", headers, body };
  expect((await fetch(`${receiver.url}/webhooks/twenty`, options)).status).toBe(200);
  const relationOf = async () => (await service.relations()).get(id);
  await waitFor(async () => (await relationOf()) !== undefined, { what: "the relation" });
  expect(await relationOf()).toMatchObject({ lastName: "Muster", city: "Bern" });
});

test("pulling reads what belongs together, and a changed part changes its owner", async () => {
  await using api = await standInFor(salesforce);
  await using service = await localSandbox();
  await using folder = await tempDir();
  const seconds = () => new Date().toISOString().replace(/\.\d+Z$/, ".000+0000");
  const old = { SystemModstamp: "2026-11-01T10:00:00.000+0000", IsDeleted: false };
  const contact = { ...contactOf(1), ...old };
  const part = { Id: partId(1), Contact__c: contactId(1), Score__c: 3, ...old };
  const account = { Id: ACCOUNT, BillingCity: "Bern", ...old };
  const { records } = api.list;
  records.set("Contact", [contact]).set("KYC__c", [part]).set("Account", [account]);
  const mapping = join(folder.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const own = { MAPPING: mapping, DATA_DIR: folder.path, RELATED_WAIT_MS: "500" };
  const pulls = { PULL_FROM: "salesforce", PULL_EVERY: "1 s" };
  const settings = { ...salesforce.settings(api.url), ...salesforce.secrets };
  await using _daemon = await localDaemon(envFor(service, { ...settings, ...own, ...pulls }));
  const reaches = (taxIdentificationNumber: string) =>
    waitFor(
      async () => {
        const found = (await service.relations()).get(contactId(1));
        return found?.["taxIdentificationNumber"] === taxIdentificationNumber ? found : undefined;
      },
      { what: `the score ${taxIdentificationNumber}` },
    );
  expect(await reaches("3")).toMatchObject({ city: "Bern", placeOfBirth: "1" });
  records.set("KYC__c", [{ ...part, Score__c: 5, SystemModstamp: seconds() }]);
  expect(await reaches("5")).toMatchObject({ city: "Bern" });
  const requests = await service.requests();
  expect([requests["create 201"], requests["update 200"]]).toEqual([1, 1]);
});
