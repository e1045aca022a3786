/** Records that belong to others, as each CRM's API gives them, from stand-ins. */
import { describe, expect, test } from "vitest";
import { createCrmApi } from "../../../src/intake/crm/api-client.ts";
import { ownersOf, withRelated } from "../../../src/intake/crm/related.ts";
import type { Relation } from "../../../src/core/sync/mapped.ts";
import { CRM_APIS, standInFor } from "../../support/crm-stand-ins.ts";

type Json = Readonly<Record<string, unknown>>;

const NO_PROXY = { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined };

interface Case {
  readonly crm: string;
  readonly owner: string;
  /** As the CRM reads or lists them: the first has everything, the second nothing, the third says less. */
  readonly owners: readonly (readonly [id: string, record: Json])[];
  readonly one: Partial<Relation>;
  readonly many: Partial<Relation>;
  /** By the name of the list in the API: what it holds. */
  readonly records: Readonly<Record<string, readonly Json[]>>;
  readonly associations?: Readonly<Record<string, readonly Json[]>>;
  /** The ids of `one`, and of `many`, of the first owner. */
  readonly found: readonly [string, readonly string[]];
  readonly idOf: (record: Json) => unknown;
}

const guid = (n: number) => `00000000-0000-0000-0000-${String(n).padStart(12, "0")}`;
const sf = (prefix: string, n: number) =>
  `${prefix}Qk0000000${String(n).padStart(5, "0")}IAB`.slice(0, 18);

const CASES: readonly Case[] = [
  {
    crm: "salesforce",
    owner: "Contact",
    owners: [
      [sf("003", 1), { AccountId: sf("001", 1) }],
      [sf("003", 2), { AccountId: null }],
      [sf("003", 3), {}],
    ],
    one: { object: "Account", by: "AccountId" },
    many: { object: "KYC__c", of: "Contact__c" },
    records: {
      Account: [
        { Id: sf("001", 1), Industry: "Bank" },
        { Id: sf("001", 2), Industry: "Farm" },
      ],
      KYC__c: [
        { Id: sf("a01", 2), Contact__c: sf("003", 1), Industry: "x" },
        { Id: sf("a01", 1), Contact__c: sf("003", 1), Industry: null },
        { Id: sf("a01", 3), Contact__c: sf("003", 9), Industry: "z" },
      ],
      Contact: [
        { Id: sf("003", 1), AccountId: sf("001", 1) },
        { Id: sf("003", 4), AccountId: sf("001", 1) },
      ],
    },
    found: [sf("001", 1), [sf("a01", 1), sf("a01", 2)]],
    idOf: ({ Id }) => Id,
  },
  {
    crm: "dynamics",
    owner: "contact",
    owners: [
      [guid(1), { _parentcustomerid_value: guid(11) }],
      [guid(2), { _parentcustomerid_value: null }],
      [guid(3), {}],
    ],
    one: { object: "account", by: "_parentcustomerid_value" },
    many: { object: "new_kyc", of: "_new_contact_value" },
    records: {
      accounts: [
        { accountid: guid(11), Industry: "Bank" },
        { accountid: guid(12), Industry: "Farm" },
      ],
      new_kycs: [
        { new_kycid: guid(22), _new_contact_value: guid(1) },
        { new_kycid: guid(21), _new_contact_value: guid(1) },
        { new_kycid: guid(23), _new_contact_value: guid(9) },
      ],
      contacts: [
        { contactid: guid(1), _parentcustomerid_value: guid(11) },
        { contactid: guid(4), _parentcustomerid_value: guid(11) },
      ],
    },
    found: [guid(11), [guid(21), guid(22)]],
    idOf: (record) => record["accountid"] ?? record["new_kycid"],
  },
  {
    crm: "hubspot",
    owner: "contact",
    owners: [
      ["1", { properties: {} }],
      ["2", { properties: {} }],
    ],
    one: { object: "company" },
    many: { object: "2-77" },
    records: {
      companies: [
        { id: "11", properties: { Industry: "Bank" } },
        { id: "12", properties: {} },
      ],
      "2-77": [],
    },
    associations: {
      "contacts/1/companies": [
        {
          toObjectId: 9,
          associationTypes: [{ category: "HUBSPOT_DEFINED", typeId: 279, label: null }],
        },
        // It was deleted meanwhile.
        { toObjectId: 12, associationTypes: [] },
        { toObjectId: "11", associationTypes: [{ typeId: 279 }, { typeId: 1, label: "Primary" }] },
      ],
      "contacts/1/2-77": [],
      "companies/11/contacts": [{ toObjectId: 1 }, { toObjectId: 4 }],
    },
    found: ["11", []],
    idOf: ({ id }) => id,
  },
  {
    crm: "pipedrive",
    owner: "person",
    owners: [
      ["1", { org_id: 11 }],
      ["2", { org_id: null }],
      ["3", {}],
    ],
    one: { object: "organization", by: "org_id" },
    many: { object: "deal", of: "person_id" },
    records: {
      organizations: [
        { id: 11, name: "Bank" },
        { id: 12, name: "Farm" },
      ],
      deals: [
        { id: 22, person_id: 1 },
        { id: 21, person_id: 1 },
        { id: 23, person_id: 9 },
      ],
      persons: [
        { id: 1, org_id: 11 },
        { id: 4, org_id: 11 },
      ],
    },
    found: ["11", ["21", "22"]],
    idOf: ({ id }) => String(id),
  },
  {
    crm: "espocrm",
    owner: "Contact",
    owners: [
      ["1", { accountId: "11" }],
      ["2", { accountId: null }],
      ["3", {}],
    ],
    one: { object: "Account", by: "accountId" },
    many: { object: "CKyc", of: "contactId" },
    records: {
      Account: [
        { id: "11", industry: "Bank" },
        { id: "12", industry: "Farm" },
      ],
      CKyc: [
        { id: "22", contactId: "1" },
        { id: "21", contactId: "1" },
        { id: "23", contactId: "9" },
      ],
      Contact: [
        { id: "1", accountId: "11" },
        { id: "4", accountId: "11" },
      ],
    },
    found: ["11", ["21", "22"]],
    idOf: ({ id }) => id,
  },
  {
    crm: "twenty",
    owner: "person",
    owners: [
      [guid(1), { companyId: guid(11) }],
      [guid(2), { companyId: null }],
      [guid(3), {}],
    ],
    one: { object: "company", by: "companyId" },
    many: { object: "kyc", of: "personId" },
    records: {
      companies: [
        { id: guid(11), industry: "Bank" },
        { id: guid(12), industry: "Farm" },
      ],
      kycs: [
        { id: guid(22), personId: guid(1) },
        { id: guid(21), personId: guid(1) },
        { id: guid(24), personId: guid(1), deletedAt: "2026-11-16T09:10:10.500Z" },
        { id: guid(23), personId: guid(9) },
      ],
      people: [
        { id: guid(1), companyId: guid(11) },
        { id: guid(4), companyId: guid(11) },
      ],
    },
    found: [guid(11), [guid(21), guid(22)]],
    idOf: ({ id }) => id,
  },
];

async function open(one: Case) {
  const crm = CRM_APIS.find(({ name }) => name === one.crm);
  if (crm === undefined) throw new Error(one.crm);
  const standIn = await standInFor(crm);
  standIn.list.pageSize = 1;
  for (const [name, records] of Object.entries(one.records))
    standIn.list.records.set(name, [...records]);
  for (const [name, to] of Object.entries(one.associations ?? {}))
    standIn.list.associations?.set(name, [...to]);
  const client = createCrmApi({ timeoutMs: 20_000, proxy: NO_PROXY });
  const settings: Record<string, string> = { ...crm.settings(standIn.url), ...crm.secrets };
  const api = { ...client, setting: (name: string) => settings[name] ?? "" };
  const relationOf = (name: string, more: Partial<Relation>): Relation => ({
    owners: [one.owner],
    name,
    object: "",
    many: name === "many",
    by: undefined,
    of: undefined,
    isPart: true,
    ...more,
  });
  const relations = [relationOf("one", one.one), relationOf("many", one.many)];
  const reads = new Set(["Industry", "industry", "name", "label", "AccountId", "Contact__c"]);
  return {
    standIn,
    read: (object = one.owner) =>
      withRelated(
        api,
        one.crm,
        object,
        one.owners.map(([id, record]) => ({ id, record })),
        { reads, relations },
      ),
    ownersOf: (ids: readonly string[], index: 0 | 1) =>
      ownersOf(api, one.crm, ids, relations[index] ?? relationOf("", {})),
    async [Symbol.asyncDispose]() {
      await client.close();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

describe.for(CASES.map((one) => [one.crm, one] as const))("%s", ([, one]) => {
  test("related records stand in the record; none is null, and what is not known stays away", async () => {
    await using opened = await open(one);
    const records = await opened.read();
    if ("kind" in records) throw new Error(JSON.stringify(records));
    const [first, second, third] = records.map(({ record }) => record);
    expect(one.idOf(first?.["one"] as Json)).toBe(one.found[0]);
    const many = first?.["many"] as Json[] | undefined;
    expect(many?.map(one.idOf)).toEqual(one.found[1]);
    expect(second).toEqual({ ...one.owners[1]?.[1], one: null, many: [] });
    if (third !== undefined) expect(Object.keys(third)).toEqual(["many"]);
    // Records of another object have none.
    expect(await opened.read("other")).toEqual(one.owners.map(([id, record]) => ({ id, record })));
  });

  test("a related record that cannot be read makes the whole record one that cannot be read", async () => {
    await using opened = await open(one);
    opened.standIn.faults.push({ status: 503 });
    expect(await opened.read()).toMatchObject({ kind: "unavailable" });
    opened.standIn.faults.push({ status: 429, headers: { "retry-after": "7" } });
    expect(await opened.read()).toEqual({ kind: "throttled", retryAfterMs: 7000 });
    opened.standIn.faults.push({ status: 404, body: "{}" });
    expect(await opened.read()).toMatchObject({ kind: "client_error" });
    opened.standIn.faults.push({ status: 200, body: '{"status":"ok"}' });
    expect(await opened.read()).toMatchObject({ kind: "unavailable" });
  });

  test("a part leads to its owners", async () => {
    await using opened = await open(one);
    const [part] = one.found;
    const owners = await opened.ownersOf([part], 0);
    if ("kind" in owners) throw new Error(JSON.stringify(owners));
    const own = one.owners[0]?.[0] ?? "";
    expect(owners.get(part)).toEqual([own, own.replace(/1(?=\D*$)/, "4")]);
    const [, parts] = one.found;
    const ofMany = await opened.ownersOf(parts, 1);
    if ("kind" in ofMany) throw new Error(JSON.stringify(ofMany));
    expect([...ofMany]).toEqual(parts.map((id) => [id, [own]]));
    expect(opened.standIn.reads.length).toBeLessThan(8);
  });
});

test("Twenty: what is no UUID is not asked for, since it would make Twenty refuse the others", async () => {
  const twenty = CASES.find(({ crm }) => crm === "twenty");
  if (twenty === undefined) throw new Error("no case");
  await using opened = await open(twenty);
  expect(await opened.ownersOf(["4711"], 0)).toEqual(new Map());
  expect(opened.standIn.reads).toHaveLength(0);
  expect(await opened.ownersOf(["4711", guid(21)], 1)).toEqual(new Map([[guid(21), [guid(1)]]]));
});

test("Twenty: records that do not show to whom they belong cannot be read", async () => {
  const twenty = CASES.find(({ crm }) => crm === "twenty");
  if (twenty === undefined) throw new Error("no case");
  await using opened = await open(twenty);
  const pageInfo = { hasNextPage: false, endCursor: null };
  const body = { data: { kycs: [{ id: guid(21) }] }, pageInfo, totalCount: 1 };
  const { faults, reads } = opened.standIn;
  await opened.read();
  expect(reads[1]?.url).toMatch(/^\/rest\/kycs\?depth=0&/);
  const company = { id: guid(11), industry: "Bank" };
  const companies = JSON.stringify({ data: { companies: [company] }, pageInfo, totalCount: 1 });
  faults.push({ status: 200, body: companies }, { status: 200, body: JSON.stringify(body) });
  expect(await opened.read()).toEqual({
    kind: "client_error",
    reason: "kyc comes without personId",
  });
});

test("HubSpot: what a batch could not give is a failure, unless it does not exist", async () => {
  const hubspot = CASES.find(({ crm }) => crm === "hubspot");
  if (hubspot === undefined) throw new Error("no case");
  await using opened = await open(hubspot);
  const errors = [{ status: "error", category: "RATE_LIMITS" }];
  opened.standIn.faults.push({ status: 207, body: JSON.stringify({ results: [], errors }) });
  expect(await opened.read()).toMatchObject({ kind: "unavailable" });
});
