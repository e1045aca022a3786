import { expect, test } from "vitest";
import { createCrmApi } from "../../../src/intake/crm/api-client.ts";
import { CHECKERS } from "../../../src/intake/crm/check-crms.ts";
import { checkCrm, type CrmReport, type ObjectNeeds } from "../../../src/intake/crm/crm-check.ts";
import { CRM_APIS, standInFor, type CrmAccess, type StandIn } from "../../support/crm-stand-ins.ts";

const HASH = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

interface Case {
  readonly object: string;
  /** What the mapping reads; the first one is what changes. */
  readonly paths: readonly (readonly string[])[];
  /** What the CRM has, with its types. */
  readonly fields: Readonly<Record<string, string>>;
  /** The field that `paths` begins with is called so when it is renamed. */
  readonly renamed: string;
  readonly url: string;
  readonly webhooks: readonly string[];
  readonly missing: RegExp;
  readonly right: RegExp;
}

const CASES: Readonly<Record<string, Case>> = {
  hubspot: {
    object: "contact",
    paths: [["properties", "birthdate"], ["properties", "secret_tin"], ["properties"], ["id"]],
    fields: { birthdate: "date", secret_tin: "string", firstname: "string" },
    renamed: "birthdate2",
    url: "",
    webhooks: [
      "contact.creation",
      "contact.deletion",
      "contact.merge",
      "contact.restore",
      "contact.privacyDeletion",
      "contact.propertyChange secret_tin",
      "contact.propertyChange birthdate",
    ],
    missing: /contact\.propertyChange birthdate here$/,
    right: /crm\.objects\.contacts\.read/,
  },
  salesforce: {
    object: "Contact",
    paths: [["Birthdate"], ["attributes"]],
    fields: { Birthdate: "date", LastName: "string" },
    renamed: "BirthDate__c",
    url: "",
    webhooks: ["AccountChangeEvent", "ContactChangeEvent"],
    missing: /Contact\.ChangeEvent here$/,
    right: /^$/,
  },
  dynamics: {
    object: "contact",
    paths: [
      ["birthdate"],
      ["_ownerid_value"],
      ["gendercode@OData.Community.Display.V1.FormattedValue"],
    ],
    fields: { birthdate: "DateTime", ownerid: "Owner", gendercode: "Picklist" },
    renamed: "birthday",
    url: "https://sync.example/webhooks/dynamics?code=1",
    webhooks: [
      "contact.Create",
      "contact.Delete",
      "contact.Merge",
      "contact.Restore",
      "contact.Update",
    ],
    missing: /contact\.Update here$/,
    right: /Read on contact/,
  },
  pipedrive: {
    object: "person",
    paths: [["custom_fields", HASH], ["name"], ["emails", "value"]],
    fields: { [HASH]: "date", name: "varchar", emails: "" },
    renamed: HASH.replace("0a1b", "ffff"),
    url: "https://sync.example/webhooks/pipedrive",
    webhooks: ["*.create", "person.change", "person.delete"],
    missing: /person\.delete here$/,
    right: /sees all persons/,
  },
  espocrm: {
    object: "Contact",
    paths: [["birthDate"], ["accountId"], ["emailAddressData"], ["id"]],
    fields: { birthDate: "date", account: "link", emailAddress: "email" },
    renamed: "birthDay",
    url: "https://sync.example/webhooks/espocrm",
    webhooks: ["Contact.create", "Contact.update", "Contact.delete"],
    missing: /Contact\.delete here$/,
    right: /read access to Contact/,
  },
  twenty: {
    object: "person",
    paths: [["birthDate"], ["companyId"], ["emails", "primaryEmail"]],
    fields: { birthDate: "DATE", company: "RELATION", emails: "EMAILS" },
    renamed: "birthday",
    url: "https://sync.example/webhooks/twenty",
    webhooks: ["*.restored", "person.destroyed", "person.created", "person.deleted", "*.updated"],
    missing: /person\.updated here$/,
    right: /read person records/,
  },
};

function casesOf(crm: CrmAccess): Case {
  const found = CASES[crm.name];
  if (found === undefined) throw new Error(`no case for ${crm.name}`);
  return found;
}

async function checked(
  crm: CrmAccess,
  standIn: StandIn,
  known: CrmReport["types"] = {},
  secrets = crm.secrets,
): Promise<CrmReport> {
  const { object, paths } = casesOf(crm);
  const api = createCrmApi({ timeoutMs: 2000, proxy: {}, wrapsLists: true });
  const settings = { ...crm.settings(standIn.url), ...secrets };
  const checker = CHECKERS[crm.name];
  if (checker === undefined) throw new Error(`no checker for ${crm.name}`);
  const objects: ObjectNeeds[] = [
    { name: object, uses: paths.map((path) => ({ path, by: "birthDate" })) },
  ];
  try {
    return await checkCrm({
      checker,
      api: { ...api, setting: (name) => settings[name] ?? "" },
      objects,
      hasWebhooks: true,
      known,
      isOneOfSeveral: false,
    });
  } finally {
    await api.close();
  }
}

async function asNeeded(crm: CrmAccess): Promise<StandIn> {
  const standIn = await standInFor(crm);
  const { fields, object, url, webhooks } = casesOf(crm);
  const { description } = standIn;
  description.fields.set(object, new Map(Object.entries(fields)));
  description.webhooks = [...webhooks];
  description.url = url;
  return standIn;
}

const linesOf = ({ lines }: CrmReport, result: string) =>
  lines.filter((line) => line.result === result).map(({ what, says }) => `${what}: ${says}`);

test.each(CRM_APIS)("$name as the mapping needs it is right in every line", async (crm) => {
  await using standIn = await asNeeded(crm);
  const report = await checked(crm, standIn);
  expect(report.lines.filter(({ result }) => result !== "ok")).toEqual([]);
  expect(report.lines.map(({ what }) => what).toSorted()).toEqual([
    "credentials",
    "fields",
    "rights",
    "webhooks",
  ]);
  const [type] = Object.values(casesOf(crm).fields);
  expect(Object.values(Object.values(report.types)[0] ?? {})[0]).toBe(type);
});

test.each(CRM_APIS)(
  "$name: a field that was renamed is named, with the nearest one",
  async (crm) => {
    const { fields, object, renamed } = casesOf(crm);
    await using standIn = await asNeeded(crm);
    const [name = ""] = Object.keys(fields);
    const type = fields[name] ?? "";
    const own = standIn.description.fields.get(object);
    own?.delete(name);
    own?.set(renamed, type);
    const report = await checked(crm, standIn);
    const [line, ...others] = linesOf(report, "fail");
    expect(others).toEqual([]);
    expect(line).toContain(`fields: ${object} has no \`${name}\` (nearest: \`${renamed}\`)`);
    expect(line).toContain("the mapping reads it for birthDate");
  },
);

test.each(CRM_APIS)(
  "$name: a field with another type is named until the type is accepted",
  async (crm) => {
    const { object } = casesOf(crm);
    await using standIn = await asNeeded(crm);
    const { types } = await checked(crm, standIn);
    const [name = ""] = Object.keys(types[object] ?? {});
    standIn.description.fields.get(object)?.set(name, "text");
    const first = await checked(crm, standIn, types);
    expect(linesOf(first, "fail")).toEqual([
      expect.stringMatching(/^fields: `\w+` of \w+ has become text, and was \w+;/) as string,
    ]);
    // What is known is still the type before.
    expect(linesOf(await checked(crm, standIn, first.types), "fail")).toHaveLength(1);
    expect(linesOf(await checked(crm, standIn, {}), "fail")).toEqual([]);
  },
);

test.each(CRM_APIS)("$name: a webhook that is missing is named", async (crm) => {
  const { missing } = casesOf(crm);
  await using standIn = await asNeeded(crm);
  standIn.description.webhooks?.pop();
  const [line, ...others] = linesOf(await checked(crm, standIn), "fail");
  expect(others).toEqual([]);
  expect(line).toMatch(missing);
});

test.each(CRM_APIS)(
  "$name: webhooks that the credential may not see are said to be unchecked",
  async (crm) => {
    await using standIn = await asNeeded(crm);
    standIn.description.webhooks = undefined;
    const report = await checked(crm, standIn);
    expect(linesOf(report, "ok").filter((line) => line.startsWith("webhooks"))).toEqual([
      expect.stringMatching(
        /cannot be checked with this credential \(HTTP 40[03].*\): look at/,
      ) as string,
    ]);
  },
);

test.each(CRM_APIS.filter(({ name }) => name !== "salesforce"))(
  "$name: a credential without the right to read is named, with the right",
  async (crm) => {
    const { object, right } = casesOf(crm);
    await using standIn = await asNeeded(crm);
    standIn.description.forbidden.add(object);
    const report = await checked(crm, standIn);
    const failed = report.lines.filter(
      ({ what, result }) => what === "rights" && result === "fail",
    );
    expect(failed.map(({ says, remedy }) => `${says} ${remedy}`).join(" ")).toMatch(right);
    expect(failed).not.toEqual([]);
  },
);

test.each(CRM_APIS)("$name: wrong credentials are named once", async (crm) => {
  await using standIn = await asNeeded(crm);
  const wrong = Object.fromEntries(Object.keys(crm.secrets).map((name) => [name, "wrong"]));
  const { lines } = await checked(crm, standIn, {}, wrong);
  expect(lines).toEqual([
    expect.objectContaining({
      what: "credentials",
      result: "fail",
      says: expect.stringMatching(/^refused \(HTTP 401/) as string,
    }) as unknown,
  ]);
});

test("an object that the CRM lacks is a mistake, unless it may be another CRM's", async () => {
  const [crm] = CRM_APIS;
  if (crm === undefined) throw new Error("no case");
  await using standIn = await asNeeded(crm);
  standIn.description.fields.clear();
  expect(linesOf(await checked(crm, standIn), "fail")).toEqual([
    "rights: there is no contact, or none that the credential may see",
  ]);
});
