import { expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";

const context = {
  type: "crm.record.updated",
  source: "/crm",
  subject: "contact/7",
  object: "contact",
  recordId: "7",
};

const PERSON = { type: "Person", crmCode: "7", firstName: "Ada", lastName: "Muster" };

const map = (fields: Record<string, unknown>, explain = false) =>
  businessRelationMapping.map(context, { ...PERSON, ...fields }, DEFAULT_TENANT_LISTS, { explain });

test("a telephone number without a digit and an invalid address are left out, with a warning", async () => {
  const junk = { phoneNumber: "n/a", email: "none" };
  expect(await map(junk)).toEqual({
    kind: "mapped",
    crmCode: "7",
    candidate: PERSON,
    warnings: [
      { field: "email", reason: "not_accepted", kind: "a string of 4 characters" },
      { field: "phoneNumber", reason: "no_digits", kind: "a string of 3 characters" },
    ],
  });
  expect(await map(junk, true)).toMatchObject({ warnings: [{ value: "none" }, { value: "n/a" }] });
});

test("any other telephone number is sent as it is", async () => {
  const fields = { phoneNumber: "ext. 7", email: "ada@muster.lu" };
  expect(await map(fields)).toMatchObject({ candidate: fields, warnings: [] });
});

test("a value of the tenant's list is sent as the list writes it", async () => {
  const written = ["Zu\u0308rich", "geneva ", "a\u200bb", "tab\there", "plain"];
  const config = { values: new Set(written), isRequired: false, multiSelect: true };
  const lists = new Map([["branch", config]]);
  for (const branch of [written, ["Z\u00fcrich", "geneva", "ab", "tab here", "plain"]]) {
    const mapped = await businessRelationMapping.map(context, { ...PERSON, branch }, lists);
    expect(mapped).toMatchObject({ candidate: { branch: written } });
  }
  const other = await businessRelationMapping.map(context, { ...PERSON, branch: ["x"] }, lists);
  expect(other).toMatchObject({ candidate: { branch: ["x"] } });
});
