/** CRMs with a few records of two objects each, in the form in which their APIs list them. */
import { CRM_APIS, PULL_ONLY_APIS, type CrmAccess } from "./crm-stand-ins.ts";
import { fixture } from "./fixtures.ts";

type Json = Readonly<Record<string, unknown>>;

interface Population {
  readonly crm: CrmAccess;
  /** The object as events name it, and as the API's addresses name its list. */
  readonly object: string;
  readonly list: string;
  /** Of the second object, if the CRM has one. */
  readonly other: string | undefined;
  readonly otherList: string;
  readonly idOf: (n: number) => string;
  /** Record `n` as the API lists it. */
  readonly listed: (n: number) => Json;
  /** Record `n` as an event brings it, or its fetch. */
  readonly sent: (n: number) => Json;
  readonly otherListed: (n: number) => Json;
  /** Requests that a list needs beside its pages, for each object. */
  readonly extra: number;
}

const crmOf = (name: string): CrmAccess => {
  const found = [...CRM_APIS, ...PULL_ONLY_APIS].find((one) => one.name === name);
  if (found === undefined) throw new Error(`no stand-in for ${name}`);
  return found;
};

const padded = (n: number, length: number) => String(n).padStart(length, "0");
const uuid = (n: number) => `a2f0b7c4-1111-4e4e-9f9f-${padded(n, 12)}`;

const HUBSPOT = fixture("hubspot/records/contact-512840017733.json") as Json;
const SALESFORCE = fixture("salesforce/records/contact-003Qk00000AbC12IAF.json") as Json;
const ACCOUNT = fixture("salesforce/records/account-001Qk00000XyZ34IAF.json") as Json;
const DYNAMICS = fixture("dynamics/records/contact-5f2d9c11.json") as Json;
const ESPOCRM = (fixture("espocrm/01-Contact.create.json") as Json[])[0] ?? {};
const PERSON = (fixture("pipedrive/01-person-create.json") as { data: Json }).data;
const WEALTHBOX = fixture("wealthbox/person.json") as Json;
const REDTAIL = fixture("redtail/individual.json") as Json;
const TWENTY = (fixture("twenty/01-person.created.json") as { record: Json }).record;

/** The values of the person's custom fields as the API has them, without their types. */
const PERSON_VALUES = {
  "9c1d7b0f6f1f4a0b8f7e2a6b5c4d3e2f1a0b9c8d": 42,
  "1f0e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c": "1990-07-14",
};

/** What `personFields` and `organizationFields` say. */
const PIPEDRIVE_FIELDS = [
  { field_code: "name", field_type: "varchar" },
  { field_code: "9c1d7b0f6f1f4a0b8f7e2a6b5c4d3e2f1a0b9c8d", field_type: "enum" },
  { field_code: "1f0e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c", field_type: "date" },
  { field_code: "aa11bb22cc33dd44ee55ff6600112233445566aa", field_type: "varchar" },
];

export const POPULATIONS: readonly Population[] = [
  {
    crm: crmOf("hubspot"),
    object: "contact",
    list: "contacts",
    other: "company",
    otherList: "companies",
    idOf: (n) => `51284001${padded(n, 4)}`,
    listed: (n) => ({ ...HUBSPOT, id: `51284001${padded(n, 4)}` }),
    sent: (n) => ({ ...HUBSPOT, id: `51284001${padded(n, 4)}` }),
    otherListed: (n) => ({ id: `7${padded(n, 4)}`, properties: { name: `Firma ${n}` } }),
    extra: 1,
  },
  {
    crm: crmOf("salesforce"),
    object: "Contact",
    list: "Contact",
    other: "Account",
    otherList: "Account",
    idOf: (n) => `003Qk0000${padded(n, 6)}IAA`,
    listed: (n) => ({ ...SALESFORCE, Id: `003Qk0000${padded(n, 6)}IAA` }),
    sent: (n) => ({ ...SALESFORCE, Id: `003Qk0000${padded(n, 6)}IAA` }),
    otherListed: (n) => ({ ...ACCOUNT, Id: `001Qk0000${padded(n, 6)}IAA` }),
    extra: 1,
  },
  {
    crm: crmOf("dynamics"),
    object: "contact",
    list: "contacts",
    other: "account",
    otherList: "accounts",
    idOf: uuid,
    listed: (n) => ({ ...DYNAMICS, contactid: uuid(n) }),
    sent: (n) => ({ ...DYNAMICS, contactid: uuid(n) }),
    otherListed: (n) => ({ accountid: uuid(n + 5000), name: `Firma ${n}`, statecode: 0 }),
    extra: 1,
  },
  {
    crm: crmOf("espocrm"),
    object: "Contact",
    list: "Contact",
    other: "Account",
    otherList: "Account",
    idOf: (n) => `6737f0a1b2c3${padded(n, 5)}`,
    listed: (n) => ({ ...ESPOCRM, id: `6737f0a1b2c3${padded(n, 5)}` }),
    sent: (n) => ({ ...ESPOCRM, id: `6737f0a1b2c3${padded(n, 5)}` }),
    otherListed: (n) => ({ id: `6737f0a1b2c4${padded(n, 5)}`, name: `Firma ${n}` }),
    extra: 2,
  },
  {
    crm: crmOf("pipedrive"),
    object: "person",
    list: "persons",
    other: "organization",
    otherList: "organizations",
    idOf: (n) => String(3000 + n),
    listed: (n) => ({ ...PERSON, id: 3000 + n, custom_fields: PERSON_VALUES }),
    sent: (n) => ({ ...PERSON, id: 3000 + n }),
    otherListed: (n) => ({ id: 900 + n, name: `Firma ${n}`, address: { value: "Vaduz" } }),
    extra: 1,
  },
  {
    crm: crmOf("twenty"),
    object: "person",
    list: "people",
    other: "company",
    otherList: "companies",
    idOf: uuid,
    listed: (n) => ({ ...TWENTY, id: uuid(n) }),
    sent: (n) => ({ ...TWENTY, id: uuid(n) }),
    otherListed: (n) => ({ id: uuid(n + 5000), name: `Firma ${n}` }),
    extra: 2,
  },
  {
    crm: crmOf("wealthbox"),
    object: "contact",
    list: "contacts",
    other: undefined,
    otherList: "",
    idOf: (n) => String(7_214_300 + n),
    listed: (n) => ({ ...WEALTHBOX, id: 7_214_300 + n }),
    sent: (n) => ({ ...WEALTHBOX, id: 7_214_300 + n }),
    otherListed: () => ({}),
    extra: 0,
  },
  {
    crm: crmOf("redtail"),
    object: "contact",
    list: "contacts",
    other: undefined,
    otherList: "",
    idOf: (n) => String(3090 + n),
    listed: (n) => ({ ...REDTAIL, id: 3090 + n }),
    sent: (n) => ({ ...REDTAIL, id: 3090 + n }),
    otherListed: () => ({}),
    extra: 0,
  },
];

/** Fills a stand-in's list; the fields of Pipedrive are in it, too. */
export function populate(
  records: Map<string, Json[]>,
  { crm, list, listed, other, otherList, otherListed }: Population,
  [many, few]: readonly [number, number],
): void {
  records.set(
    list,
    Array.from({ length: many }, (_, n) => listed(n)),
  );
  if (other === undefined) return;
  records.set(
    otherList,
    Array.from({ length: few }, (_, n) => otherListed(n)),
  );
  if (crm.name !== "pipedrive") return;
  for (const name of ["personFields", "organizationFields"]) {
    records.set(name, [...PIPEDRIVE_FIELDS]);
  }
}
