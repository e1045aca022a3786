/** Lists of each CRM over real HTTP, from stand-ins of their APIs. */
import { mkdirSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { mapEventRecord } from "../../../src/intake/mapping/map-event-record.ts";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import {
  listCrm,
  openListing,
  type ListingSession,
} from "../../../src/whole/reconcile/crm-snapshot.ts";
import { removeOldListings } from "../../../src/whole/reconcile/left-overs.ts";
import type { OpenSnapshot } from "../../../src/whole/reconcile/open-snapshot.ts";
import { readSnapshot } from "../../../src/intake/snapshot/read-snapshot.ts";
import type { PlanProgress } from "../../../src/core/state/reconciliations.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { POPULATIONS, populate } from "../../support/crm-populations.ts";
import { standInFor, type CrmAccess, type StandIn } from "../../support/crm-stand-ins.ts";
import { tempDir } from "../../support/temp-dir.ts";

const NOW = Date.parse("2026-11-21T08:00:00Z");

const population = (name: string) => {
  const found = POPULATIONS.find(({ crm }) => crm.name === name);
  if (found === undefined) throw new Error(name);
  return found;
};

const mappings = new Map<string, Mapping>();
beforeAll(async () => {
  const opened = POPULATIONS.map(({ crm }) => loadMapping(crm.name));
  for (const mapping of await Promise.all(opened)) mappings.set(mapping.name, mapping);
});
afterAll(() => Promise.all([...mappings.values()].map((mapping) => mapping.close())));

function mappingOf(name: string): Mapping {
  const mapping = mappings.get(name);
  if (mapping === undefined) throw new Error(name);
  return mapping;
}

interface Opened extends AsyncDisposable {
  readonly session: ListingSession;
  readonly standIn: StandIn;
  readonly dir: string;
  now: number;
  readonly plans: Map<string, PlanProgress>;
}

async function open(crm: CrmAccess, keys: readonly Buffer[] = []): Promise<Opened> {
  const dir = await tempDir();
  const standIn = await standInFor(crm);
  const config = readConfig({
    ...crm.settings(standIn.url),
    ...crm.secrets,
    RETRY_BASE_MS: "1",
    DATA_DIR: dir.path,
  });
  const folder = join(dir.path, "reconcile");
  mkdirSync(folder);
  const plans = new Map<string, PlanProgress>();
  const opened: Opened = {
    session: {
      config,
      dir: folder,
      mapping: mappingOf(crm.name),
      stores: {
        clock: { now: () => opened.now },
        reconciliations: { progress: async (id) => plans.get(id) },
        sealing: new Sealing(keys),
      },
    },
    standIn,
    dir: folder,
    now: NOW,
    plans,
    async [Symbol.asyncDispose]() {
      await standIn[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
  return opened;
}

interface Listed {
  readonly subject: string;
  readonly data: { readonly record: Readonly<Record<string, unknown>> };
}

async function itemsOf(snapshot: OpenSnapshot): Promise<Listed[]> {
  const items: Listed[] = [];
  for await (const { value } of readSnapshot(snapshot)) items.push(value as Listed);
  return items;
}

const subjectsOf = async (snapshot: OpenSnapshot) =>
  (await itemsOf(snapshot)).map(({ subject }) => subject);

describe.for(POPULATIONS.map((one) => [one.crm.name, one] as const))("%s", ([name, one]) => {
  const { crm, object, other } = one;

  test("all records of all objects, through faults, as events bring them", async () => {
    await using opened = await open(crm);
    const { session, standIn } = opened;
    populate(standIn.list.records, one, [5, 1]);
    // One page holds all fields of Pipedrive.
    const size = name === "pipedrive" ? 4 : 3;
    standIn.list.pageSize = size;
    standIn.faults.push(
      { status: 429, headers: { "retry-after": "0.02" } },
      { status: "reset" },
      { status: 503 },
      { status: 401, body: crm.unauthorized },
    );
    const seen: number[] = [];
    const snapshot = await listCrm(session, name, {
      onProgress: ({ objects }) => seen.push(objects[object] ?? 0),
    });
    const items = await itemsOf(snapshot);
    const ids = [0, 1, 2, 3, 4].map((n) => `${object}/${one.idOf(n)}`);
    expect(items.map(({ subject }) => subject).slice(0, 5)).toEqual(ids);
    const others = other === undefined ? {} : { [other]: 1 };
    const objects = 1 + Object.keys(others).length;
    expect(items).toHaveLength(4 + objects);
    expect(seen).toEqual([size, 5, 5].slice(0, 1 + objects));
    expect(snapshot.listing?.objects).toEqual({ [object]: 5, ...others });
    expect(snapshot.takenAt).toBe(NOW - 30_000);
    const requests = 1 + objects + objects * one.extra + 4;
    expect(snapshot.listing?.requests).toBe(requests);
    expect(standIn.reads).toHaveLength(requests);

    const mapping = mappingOf(name);
    for (const [n, { subject, data }] of items.slice(0, 5).entries()) {
      const context = { type: "crm.record.updated", source: "/test", subject, object };
      const event = { ...context, recordId: one.idOf(n) };
      const byList = await mapEventRecord(mapping, event, data.record, new Map());
      const byEvent = await mapEventRecord(mapping, event, one.sent(n), new Map());
      expect(byEvent.kind).toBe("mapped");
      expect(byList).toEqual(byEvent);
    }
    snapshot.listing?.remove();
    expect(await readdir(opened.dir)).toEqual([]);
  });
});

const LIES = [
  ["hubspot", { next: "2" }, /lists the same page of contact again/],
  ["pipedrive", { next: "c2" }, /lists the same page of person again/],
  ["twenty", { next: "2" }, /lists the same page of person again/],
  [
    "salesforce",
    { next: "/services/data/v62.0/query/01gId-Contact-2" },
    /lists the same page of Contact again/,
  ],
  [
    "salesforce",
    { next: "https://evil.example/services/data/v62.0/query/01gx" },
    /another address/,
  ],
  ["salesforce", { next: "//evil.example/services/data/v62.0/query/01gx" }, /another address/],
  ["salesforce", { next: "/services/apexrest/anything" }, /another address/],
  ["dynamics", { next: "https://evil.example" }, /another address/],
  ["salesforce", { total: 9 }, /says that it has 9 Contact, and has listed 6/],
  ["dynamics", { total: 9 }, /says that it has 9 contact, and has listed 6/],
  ["espocrm", { total: 9 }, /says that it has 9 Contact, and has listed 6/],
  ["twenty", { total: 9 }, /says that it has 9 person, and has listed 6/],
  ["wealthbox", { total: 9 }, /says that it has 9 contact, and has listed 6/],
  ["redtail", { total: 9 }, /says that it has 9 contact, and has listed 6/],
] as const;

test.for(LIES)("%s: an answer that lies (%j) stops the list", async ([name, lie, message]) => {
  const one = population(name);
  await using opened = await open(one.crm);
  const { list } = opened.standIn;
  populate(list.records, one, [6, 1]);
  list.pageSize = 2;
  Object.assign(list.lies, lie);
  await expect(listCrm(opened.session, name)).rejects.toThrow(message);
  expect(opened.standIn.reads.length).toBeLessThan(20);
  // The same command then lists from the beginning.
  delete list.lies.next;
  delete list.lies.total;
  const snapshot = await listCrm(opened.session, name);
  expect(snapshot.listing?.objects[one.object]).toBe(6);
  snapshot.close();
});

test("Redtail: pages of deleted contacts do not end the list", async () => {
  const one = population("redtail");
  await using opened = await open(one.crm);
  const { list } = opened.standIn;
  const contacts = Array.from({ length: 30 }, (_, n) => {
    const isThere = n < 2 || n > 27;
    return isThere ? one.listed(n) : { ...one.listed(n), deleted: true };
  });
  list.records.set(one.list, contacts);
  list.pageSize = 2;
  const snapshot = await listCrm(opened.session, "redtail");
  expect(snapshot.listing?.objects[one.object]).toBe(4);
  snapshot.close();
});

test.for([
  ["an answer of something else", { status: 200, body: '{"hello":1}' }, /not a list of records/],
  ["a web page", { status: 200, body: "<html>" }, /not a JSON object/],
  ["a record without an id", { status: 200, body: '{"results":[{"properties":{}}]}' }, /usable id/],
  ["wrong credentials", { status: 401 }, /HTTP 401/],
  ["no such object", { status: 404, body: "{}" }, /no such object/],
  [
    "a long pause",
    { status: 429, headers: { "retry-after": "3600" } },
    /no request for 60 minutes/,
  ],
] as const)("%s ends the list with the reason", async ([, fault, message]) => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  populate(opened.standIn.list.records, one, [2, 1]);
  for (let n = 0; n < 6; n += 1) opened.standIn.faults.push(fault);
  await expect(listCrm(opened.session, "hubspot")).rejects.toThrow(message);
});

test("Salesforce: a 403 about the limit of requests is a pause", async () => {
  const one = population("salesforce");
  await using opened = await open(one.crm);
  populate(opened.standIn.list.records, one, [2, 1]);
  opened.standIn.faults.push({
    status: 403,
    headers: { "retry-after": "0.01" },
    body: '[{"message":"…","errorCode":"REQUEST_LIMIT_EXCEEDED"}]',
  });
  const snapshot = await listCrm(opened.session, "salesforce");
  expect(snapshot.scan.bytes).toBeGreaterThan(0);
  expect(opened.standIn.tokens).toBe(1);
  snapshot.close();
});

/** Ends a listing after its second page. */
function endAfterFour({ objects }: { readonly objects: Readonly<Record<string, number>> }): void {
  if (objects["contact"] === 4) throw new Error("interrupted");
}

test("a list that is interrupted continues at the page that was due, unless it is old", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [6, 1]);
  standIn.list.pageSize = 2;
  const interrupt = async () => {
    const listing = listCrm(session, "hubspot", { onProgress: endAfterFour });
    await expect(listing).rejects.toThrow("interrupted");
  };
  await interrupt();
  opened.now += 3_600_000;
  standIn.reads.length = 0;
  const continued = await listCrm(session, "hubspot");
  expect(standIn.reads.map(({ url = "" }) => new URL(url, standIn.url).pathname)).toEqual([
    "/crm/properties/2026-09/contacts",
    "/crm/objects/2026-09/contacts",
    "/crm/properties/2026-09/companies",
    "/crm/objects/2026-09/companies",
  ]);
  expect(standIn.reads[1]?.url).toContain("after=4");
  expect(continued.takenAt).toBe(NOW - 30_000);
  expect(continued.listing).toMatchObject({ requests: 7, objects: { contact: 6, company: 1 } });
  // Until a comparison of it has ended, the same command uses it.
  continued.close();
  const again = await listCrm(session, "hubspot");
  expect(again.scan).toEqual(continued.scan);
  expect(standIn.reads).toHaveLength(4);
  again.listing?.remove();

  await interrupt();
  opened.now += 7 * 3_600_000;
  standIn.reads.length = 0;
  const anew = await listCrm(session, "hubspot");
  expect(standIn.reads).toHaveLength(6);
  expect(anew.takenAt).toBe(opened.now - 30_000);
  anew.close();
});

test("a list of one account is not continued with the credentials of another", async () => {
  const one = population("hubspot");
  let token = "pat-1";
  await using opened = await open({
    ...one.crm,
    header: ["authorization", () => `Bearer ${token}`],
  });
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [6, 1]);
  standIn.list.pageSize = 2;
  const ofWrongAccount = listCrm(session, "hubspot", { onProgress: endAfterFour });
  await expect(ofWrongAccount).rejects.toThrow("interrupted");

  token = "pat-2";
  const env = { ...one.crm.settings(standIn.url), HUBSPOT_TOKEN: token, RETRY_BASE_MS: "1" };
  const own = { id: "77", properties: { firstname: "Own" } };
  standIn.list.records.set("contacts", [own]);
  const snapshot = await listCrm({ ...session, config: readConfig(env) }, "hubspot");
  expect(await subjectsOf(snapshot)).toEqual(["contact/77", expect.stringMatching(/^company/)]);
  snapshot.close();
});

test("a cursor that the CRM does not know any more begins the list again, once", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [4, 1]);
  standIn.list.pageSize = 2;
  const refuse = () => standIn.faults.push({ status: 400 }, { status: 400 });
  let pages = 0;
  const snapshot = await listCrm(session, "hubspot", {
    onProgress: () => (pages += 1) === 1 && refuse(),
  });
  expect(await subjectsOf(snapshot)).toHaveLength(5);
  expect(standIn.reads).toHaveLength(2 + 1 + 2 + 2 + 1);
  snapshot.listing?.remove();
  const twice = listCrm(session, "hubspot", {
    onProgress: ({ objects }) => objects["contact"] === 2 && refuse(),
  });
  await expect(twice).rejects.toThrow(/HTTP 400.* lists contact from the beginning$/);
  standIn.reads.length = 0;
  const later = await listCrm(session, "hubspot");
  expect(standIn.reads[0]?.url).not.toContain("after=");
  later.close();
});

test("a record that the CRM has locked meanwhile does not begin the list again", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [4, 1]);
  standIn.list.pageSize = 2;
  const snapshot = await listCrm(session, "hubspot", {
    onProgress: ({ objects }) =>
      objects["contact"] === 2 && standIn.faults.push({ status: 423 }, { status: 423 }),
  });
  expect(await subjectsOf(snapshot)).toHaveLength(5);
  expect(standIn.reads).toHaveLength(2 + 1 + 2 + 1 + 1);
  snapshot.close();
});

test.for([
  ["hubspot", "faults"],
  ["salesforce", "faults"],
  ["salesforce", "tokenFaults"],
] as const)("%s: credentials that are refused in between keep the place (%s)", async (given) => {
  const [name, faults] = given;
  const one = population(name);
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [6, 1]);
  standIn.list.pageSize = 2;
  const denied = listCrm(session, name, {
    onProgress({ objects }) {
      if (objects[one.object] !== 4) return;
      // A token that is refused is replaced: by none.
      if (faults === "tokenFaults") standIn.faults.push({ status: 401 });
      standIn[faults].push({ status: 401 }, { status: 401 });
    },
  });
  await expect(denied).rejects.toThrow(/HTTP 401.* continues after the 4 records/);
  standIn.faults.length = 0;
  standIn.tokenFaults.length = 0;
  const continued = await listCrm(session, name);
  expect(continued.listing?.objects[one.object]).toBe(6);
  const again = standIn.reads.filter(
    ({ url = "" }) => !/after=|query\/01g|describe|properties\/2026/.test(url),
  );
  expect(again.length).toBe(2);
  continued.close();
});

test("a record that comes twice counts once, as it was last", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  const { records } = opened.standIn.list;
  populate(records, one, [3, 1]);
  records.get("contacts")?.push({ ...one.listed(0), properties: { firstname: "Newer" } });
  opened.standIn.list.pageSize = 2;
  const snapshot = await listCrm(opened.session, "hubspot");
  const items = await itemsOf(snapshot);
  expect(items).toHaveLength(4);
  expect(items[0]?.data.record).toMatchObject({ properties: { firstname: "Newer" } });
  snapshot.close();
});

test("an empty list is an error, and says which variables are missing", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  populate(opened.standIn.list.records, one, [0, 0]);
  await expect(listCrm(opened.session, "hubspot")).rejects.toThrow(
    /lists no contact and no company: .* terminates nothing/,
  );
  await expect(listCrm(opened.session, "espocrm")).rejects.toThrow(
    "to list espocrm, set ESPOCRM_URL, ESPOCRM_API_KEY",
  );
  const mapping = { name: "module.ts", objects: [], reads: new Set<string>() };
  await expect(
    listCrm({ ...opened.session, mapping }, "hubspot", { object: "contact" }),
  ).rejects.toThrow("module.ts does not name the objects of hubspot and their fields");
  await expect(listCrm(opened.session, "zoho")).rejects.toThrow("zoho cannot be listed");
});

test("EspoCRM: a mapping that reads what lists leave out gets whole records", async () => {
  const one = population("espocrm");
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [3, 0]);
  const mapping = { ...session.mapping, name: "own", objects: ["Contact"] };
  const reads = new Set([...session.mapping.reads, "phoneNumberData"]);
  const snapshot = await listCrm({ ...session, mapping: { ...mapping, reads } }, "espocrm");
  const [first] = await itemsOf(snapshot);
  expect(first?.data.record).toEqual(one.sent(0));
  expect(standIn.reads).toHaveLength(2 + 1 + 3);
  snapshot.close();
});

test("EspoCRM: the record by which lists are judged may be deleted meanwhile", async () => {
  const one = population("espocrm");
  await using opened = await open(one.crm);
  const { session, standIn } = opened;
  populate(standIn.list.records, one, [3, 0]);
  const mapping = { ...session.mapping, name: "own", objects: ["Contact"] };
  const reads = new Set([...session.mapping.reads, "phoneNumberData"]);
  const none = JSON.stringify({ list: [], total: 0 });
  const page = JSON.stringify({ list: [{ ...one.listed(0), id: "deleted" }], total: 4 });
  standIn.faults.push({ status: 200, body: page }, { status: 404 }, { status: 200, body: none });
  const snapshot = await listCrm({ ...session, mapping: { ...mapping, reads } }, "espocrm");
  const items = await itemsOf(snapshot);
  expect(items.map(({ data }) => data.record)).toEqual([one.sent(0), one.sent(1), one.sent(2)]);
  snapshot.close();
});

test("with a STATE_KEY the file has no personal data, and only its owner reads it", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm, [Buffer.alloc(32, 7)]);
  populate(opened.standIn.list.records, one, [3, 1]);
  const snapshot = await listCrm(opened.session, "hubspot");
  const [file = ""] = await readdir(opened.dir);
  const text = (await readFile(join(opened.dir, file))).toString("latin1");
  expect(text).toContain("contact");
  expect(text).not.toMatch(/Schmit|vinsmoselle|621 555/);
  const [first] = await itemsOf(snapshot);
  expect(first?.data.record).toMatchObject({ properties: { lastname: "Schmit-Weber" } });
  snapshot.close();

  const { path = "" } = snapshot;
  const other = { ...opened.session.stores, sealing: new Sealing([Buffer.alloc(32, 8)]) };
  const unreadable = openListing({ ...opened.session, stores: other }, "hubspot", path);
  await expect(itemsOf(unreadable)).rejects.toThrow("another STATE_KEY");
  unreadable.close();
});

test("the records stay for as long as a plan needs them", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  const { dir, plans, session } = opened;
  populate(opened.standIn.list.records, one, [3, 1]);
  const listFor = async (plan: string, hours: number) => {
    const snapshot = await listCrm(session, "hubspot");
    snapshot.listing?.keepFor(plan, opened.now + hours * 3_600_000);
    snapshot.close();
    return snapshot.path ?? "";
  };
  const used = await listFor("used", 24);
  opened.now += 1000;
  const begun = await listFor("begun", 48);
  opened.now += 1000;
  const unused = await listFor("unused", 24);
  plans.set("begun", { state: "running", done: 1, repaired: {}, at: 1 });
  const left = async () => (await readdir(dir)).map((name) => join(dir, name)).toSorted();
  await removeOldListings(session);
  expect(await left()).toEqual([used, begun, unused].toSorted());
  plans.set("used", { state: "done", done: 1, repaired: {}, at: 1 });
  await removeOldListings(session);
  expect(await left()).toEqual([begun, unused].toSorted());
  opened.now += 25 * 3_600_000;
  await removeOldListings(session);
  expect(await left()).toEqual([begun]);
  // One that a process works with stays.
  const inUse = openListing(session, "hubspot", begun);
  opened.now += 25 * 3_600_000;
  await removeOldListings(session);
  expect(await left()).toContain(begun);
  inUse.close();
  await removeOldListings(session);
  expect(await left()).toEqual([]);
  expect(() => openListing(session, "hubspot", begun)).toThrow("Make a new plan");
});

test("HubSpot: a property that the object has, and that an answer lacks, is empty; another is not known", async () => {
  const one = population("hubspot");
  await using opened = await open(one.crm);
  populate(opened.standIn.list.records, one, [1, 0]);
  const schemaOnly = { id: "1", properties: { mobilephone: "1", lastname: "B", firstname: "A" } };
  opened.standIn.list.records.get("contacts")?.push(schemaOnly);
  const [first] = await itemsOf(await listCrm(opened.session, "hubspot"));
  expect(first?.data).toMatchObject({ partial: true });
  const record = first?.data.record ?? {};
  const properties = record["properties"] as Record<string, unknown>;
  expect(properties["mobilephone"]).toBeNull();
  expect(properties).not.toHaveProperty("place_of_birth");
  const context = { type: "crm.record.updated", source: "/reconcile", subject: "contact/1" };
  const event = { ...context, object: "contact", recordId: "1", partial: true };
  const mapped = await mapEventRecord(mappingOf("hubspot"), event, record, new Map());
  expect(mapped).toMatchObject({ notUnderstood: ["placeOfBirth"] });
});

test("Twenty: pages as large as allowed, with the fields that the mapping reads, of large objects too", async () => {
  const one = population("twenty");
  await using opened = await open(one.crm);
  const { list, reads } = opened.standIn;
  const many = Object.fromEntries(Array.from({ length: 250 }, (_, n) => [`custom${n}`, n]));
  const { nationality, ...listed } = { nationality: "LU", ...one.listed(0) };
  // The answer without a selection ends before the last fields.
  list.records.set("people", [{ ...listed, companyId: "c-1", ...many, nationality }]);
  const reading = new Set([...opened.session.mapping.reads, "companyId"]);
  const mapping = { ...opened.session.mapping, objects: ["person"], reads: reading };
  const items = await itemsOf(await listCrm({ ...opened.session, mapping }, "twenty"));
  expect(items[0]?.data.record).toMatchObject({ id: one.idOf(0), nationality, companyId: "c-1" });
  expect(items[0]?.data.record).not.toHaveProperty("custom0");
  const query = new URL(reads.at(-1)?.url ?? "", opened.standIn.url).searchParams;
  expect(query.get("limit")).toBe("200");
  expect(query.get("fields")?.split(",")).toEqual(
    expect.arrayContaining(["id", "name", "emails", "nationality", "company"]),
  );
});
