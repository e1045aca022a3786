import { afterAll, describe, expect, test } from "vitest";
import { CRMS } from "../../../src/intake/crm/connectors.ts";
import { checkDeletions } from "../../../src/intake/mapping/mapping-warnings.ts";
import {
  loadMapping,
  mappingFileOf,
  presetNames,
} from "../../../src/intake/mapping/load-mapping.ts";
import { examineMappingFile, mappingText } from "../../../src/intake/mapping/read-mapping-file.ts";
import type { CrmRecord, Mapping } from "../../../src/intake/mapping/mapping.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { validatePayload } from "../../../src/core/sync/validate.ts";
import { fixture } from "../../support/fixtures.ts";

const opened = new Map<string, Promise<Mapping>>();
afterAll(async () => {
  for (const mapping of opened.values()) await (await mapping).close();
});

async function map(preset: string, object: string, record: unknown, explain = true) {
  if (!opened.has(preset)) opened.set(preset, loadMapping(preset));
  const mapping = await opened.get(preset);
  const context = {
    type: "crm.record.updated",
    source: "/x",
    subject: `${object}/1`,
    object,
    recordId: "1",
  };
  return mapping?.map(context, record as CrmRecord, DEFAULT_TENANT_LISTS, { explain });
}

const inside = (value: unknown, ...path: (string | number)[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value);

const CASES = [
  {
    preset: "hubspot",
    object: "contact",
    record: fixture("hubspot/records/contact-512840017733.json"),
    payload: {
      type: "Person",
      name: "Hélène Schmit-Weber",
      nationality: "LU",
      language: "fr",
      phoneNumber: "+352621555014",
      relationshipStatus: "Client",
      maritalStatus: "Married",
      wealthSource: ["inheritance", "real_estate"],
      service: ["portfolio_management_discretionary"],
    },
    warnings: [],
  },
  {
    preset: "hubspot",
    object: "company",
    record: fixture("hubspot/records/company-19022874410.json"),
    payload: {
      type: "Company",
      legalForm: "Sarl",
      incorporationDate: "2024-02-01",
      listedCompany: false,
      countryOfOperation: "LU",
      phoneNumber: "+35226550120",
    },
    warnings: [],
  },
  {
    preset: "salesforce",
    object: "Contact",
    record: fixture("salesforce/records/contact-003Qk00000AbC12IAF.json"),
    payload: {
      type: "Person",
      nationality: "CH",
      language: "de",
      phoneNumber: "+41445550133",
      wealthSource: ["company_sale_ma_exit", "financial_investments"],
    },
    warnings: [],
  },
  {
    preset: "salesforce",
    object: "Account",
    record: fixture("salesforce/records/account-001Qk00000XyZ34IAF.json"),
    payload: { type: "Company", regulatedEntity: true, incorporationDate: "1998-05-01" },
    warnings: ["legalForm not_in_table AG"],
  },
  {
    preset: "dynamics",
    object: "contact",
    record: fixture("dynamics/records/contact-5f2d9c11.json"),
    payload: { lastName: "O'Reilly", maritalStatus: "Married", birthDate: "1988-02-29" },
    warnings: ["email not_accepted siobhan.o'reilly@castletown.example"],
  },
  {
    preset: "dynamics",
    object: "account",
    record: fixture("dynamics/records/account-84aa3c55.json"),
    payload: { type: "Company", countryOfResidence: "IE", relationStatus: "active" },
    warnings: [],
  },
  {
    preset: "pipedrive",
    object: "person",
    record: inside(fixture("pipedrive/01-person-create.json"), "data"),
    payload: { lastName: "中村", email: "t.nakamura@ginko.example", birthDate: "1990-07-14" },
    warnings: [],
  },
  {
    preset: "pipedrive",
    object: "organization",
    record: inside(fixture("pipedrive/05-organization-change.json"), "data"),
    payload: { type: "Foundation", countryOfResidence: "LI" },
    warnings: [],
  },
  {
    // As Pipedrive's API returns it.
    preset: "pipedrive",
    object: "organization",
    record: { name: "Ginko", address: { value: "Hauptplatz 2, 9490 Vaduz, Liechtenstein" } },
    payload: { address: "Hauptplatz 2, 9490 Vaduz, Liechtenstein", countryOfResidence: "LI" },
    warnings: [],
  },
  {
    preset: "espocrm",
    object: "Contact",
    record: inside(fixture("espocrm/01-Contact.create.json"), 0),
    payload: { address: "Storgatan 5, lgh 1102", maritalStatus: "Partnership" },
    warnings: [],
  },
  {
    preset: "espocrm",
    object: "Account",
    record: inside(fixture("espocrm/05-Account.create.json"), 0),
    payload: { industrySector: "k_financial_and_insurance_activities", countryOfResidence: "SE" },
    warnings: [],
  },
  {
    preset: "twenty",
    object: "person",
    record: inside(fixture("twenty/01-person.created.json"), "record"),
    payload: { firstName: "Łukasz", phoneNumber: "+48555010133", city: "Kraków" },
    warnings: [],
  },
  {
    preset: "twenty",
    object: "company",
    record: inside(fixture("twenty/05-company-merge-as-deleted-plus-updated.json"), 1, "record"),
    payload: { type: "Company", countryOfResidence: "PL", postalCode: "31-147" },
    warnings: [],
  },
  {
    preset: "wealthbox",
    object: "contact",
    record: fixture("wealthbox/person.json"),
    payload: {
      type: "Person",
      lastName: "Osei-Lindqvist",
      birthDate: "1979-03-08",
      address: "18 Exchange Street, Apt 5",
      countryOfResidence: "US",
      phoneNumber: "+12075550142",
      maritalStatus: "Partnership",
      relationshipStatus: "Client",
    },
    warnings: [],
  },
  {
    preset: "wealthbox",
    object: "contact",
    record: fixture("wealthbox/household.json"),
    payload: { type: "Household", name: "Osei-Lindqvist", relationshipStatus: "Prospect" },
    warnings: [],
  },
  {
    preset: "redtail",
    object: "contact",
    record: fixture("redtail/individual.json"),
    payload: {
      type: "Person",
      firstName: "Idris",
      birthDate: "1968-09-27",
      address: "402 Alder Row, Suite 9",
      postalCode: "95814",
      phoneNumber: "+19165550188",
      email: "idris@alder.example",
      maritalStatus: "Married",
    },
    warnings: [],
  },
  {
    preset: "redtail",
    object: "contact",
    record: fixture("redtail/business.json"),
    payload: { type: "Company", name: "Alder Row Dental LLC", relationshipStatus: "Prospect" },
    warnings: [],
  },
] as const;

test.for(CASES)("$preset: $object", async ({ preset, object, record, payload, warnings }) => {
  const mapped = await map(preset, object, record);
  if (mapped?.kind !== "mapped") throw new Error(JSON.stringify(mapped));
  expect(mapped.candidate).toMatchObject(payload);
  expect(mapped.warnings.map((w) => `${w.field} ${w.reason} ${w.value}`)).toEqual(warnings);
  expect(validatePayload(mapped.candidate ?? {}, DEFAULT_TENANT_LISTS)).toMatchObject({ ok: true });
});

test("twenty: a webhook that is about all objects, as it is at first, makes no dead letters", async () => {
  const objects = ["message", "noteTarget", "attachment", "calendarEvent", "workspaceMember"];
  for (const object of objects) {
    expect(await map("twenty", object, { id: "1" }), object).toMatchObject({ kind: "ignored" });
  }
});

/** So many values of a record are replaced at a time. */
const AT_ONCE = 4;

describe("for any record, the payload is one that the service accepts", () => {
  const hostile: unknown[] = [
    "\u0000",
    "\ud800",
    "\u202e gpj",
    "𝔸𝕕𝕒",
    "x".repeat(100_000),
    "__proto__",
    "' OR 1=1",
    0,
    -1,
    1e308,
    Number.NaN,
    true,
    [],
    {},
    [[["a"]]],
    { toString: 1 },
    null,
    "0001-01-01",
  ];

  type Path = readonly string[];

  /** Where the leaves of a record are. */
  const leavesOf = (record: unknown, path: Path = []): Path[] =>
    typeof record !== "object" || record === null
      ? [path]
      : Object.entries(record).flatMap(([key, inner]) => leavesOf(inner, [...path, key]));

  /** A copy with other values at these leaves. */
  function withValues(record: unknown, values: readonly (readonly [Path, unknown])[]): unknown {
    const copy: unknown = structuredClone(record);
    for (const [path, value] of values) {
      const parent = inside(copy, ...path.slice(0, -1)) as Record<string, unknown>;
      parent[path.at(-1) ?? ""] = value;
    }
    return copy;
  }

  test.for(CASES)("$preset: $object", async ({ preset, object, record }) => {
    const check = async (changed: unknown): Promise<boolean> => {
      const mapped = await map(preset, object, changed, false);
      if (mapped?.kind !== "mapped") return false;
      const validated = validatePayload(mapped.candidate ?? {}, DEFAULT_TENANT_LISTS);
      expect(validated, JSON.stringify(changed).slice(0, 2000)).toMatchObject({ ok: true });
      return true;
    };
    const leaves = leavesOf(record);
    const apart = Math.ceil(leaves.length / AT_ONCE);
    for (let first = 0; first < apart; first += 1) {
      const group = leaves.filter((_, n) => n % apart === first);
      for (const shift of hostile.keys()) {
        const values = group.map((path, n) => [path, hostile.at(shift - n)] as const);
        if (await check(withValues(record, values))) continue;
        // One of them alone may keep the record from being mapped.
        for (const one of values) await check(withValues(record, [one]));
      }
    }
  });
});

test("there is a preset for each CRM, and a generic one", () => {
  expect(presetNames().toSorted()).toEqual([...CRMS.map(({ name }) => name), "generic"].toSorted());
});

test.for(presetNames())("`mapping check` finds nothing in %s", async (name) => {
  const text = mappingText(mappingFileOf(name));
  const { file, problems } = examineMappingFile(text, name);
  expect(problems).toEqual([]);
  expect(file && (await checkDeletions(file))).toEqual([]);
});
