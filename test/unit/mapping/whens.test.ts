/** A record that is left out: which `when` has decided it, by the present mapping. */
import { expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import {
  readMappingFile,
  readWhens,
  whensIn,
} from "../../../src/intake/mapping/read-mapping-file.ts";
import { failedWhens, leftOutText, type LeftOut } from "../../../src/intake/mapping/whens.ts";

const FIELDS =
  "    crmCode: $event.recordId\n    fields: { type: { value: Person }, firstName: a, lastName: b }\n";
const TEXT = `version: 1
objects:
  - object: [Contact, Lead]
    when: Type = "Client"
${FIELDS}  - object: Contact
    when: |-
      Stage.name
        = "open"
${FIELDS}  - object: contact
    when: is_partner
${FIELDS}`;

const contextOf = (object: string) => ({
  type: "crm.record.updated",
  object,
  source: "/x",
  recordId: "7",
  subject: `${object}/7`,
});

const presentOf = (text: string) => ({
  name: "m.yaml",
  whens: whensIn(readMappingFile(text, "m.yaml"), text),
});

async function leftBy(text: string, object: string, record: Record<string, unknown>) {
  const mapping = compileMapping(readMappingFile(text, "m.yaml"));
  const mapped = await mapRecord(mapping, contextOf(object), record);
  if (mapped.kind !== "ignored") throw new Error(mapped.kind);
  return mapped satisfies LeftOut;
}

test("each rule of the object is named, with its line, in the order of the file", async () => {
  const left = await leftBy(TEXT, "Contact", { Type: "Xq7Secret", is_partner: false });
  expect(left).toMatchObject({ reason: "when" });
  expect(leftOutText(left, "Contact", presentOf(TEXT))).toBe(
    'no rule\'s `when` is true for it (object Contact): `Type = "Client"` (Contact/Lead.when, line 4); `Stage.name = "open"` (Contact.when, line 8); `is_partner` (contact.when, line 14)',
  );
  const lead = await leftBy(TEXT, "LEAD", {});
  expect(leftOutText(lead, "LEAD", presentOf(TEXT))).toMatch(
    /: `Type = "Client"` \(Contact\/Lead\.when, line 4\)$/,
  );
});

test("a rule that was neither true nor false is marked", async () => {
  const left = await leftBy(TEXT, "contact", { Type: "Vendor" });
  expect(left).toMatchObject({ reason: "when_undecided" });
  expect(failedWhens(left, "contact", presentOf(TEXT))).toMatchObject([
    { text: 'Type = "Client"', undecided: false },
    { undecided: false },
    { text: "is_partner", undecided: true },
  ]);
});

test("what points to the rules is short, and holds nothing of the record", async () => {
  const left = await leftBy(TEXT, "contact", { Type: "Xq7Secret" });
  expect(left.whens).toMatch(/^[\w-]{6}2$/);
});

test("rules that were changed since are not taken for those of that time", async () => {
  const left = await leftBy(TEXT, "Lead", { Type: "Vendor" });
  const changed = presentOf(TEXT.replace('"Client"', '"Customer"'));
  expect(failedWhens(left, "Lead", changed)).toBeUndefined();
  expect(leftOutText(left, "Lead", changed)).toContain(
    'the mapping m.yaml has other rules for it now: `Type = "Customer"` (Contact/Lead.when, line 4)',
  );
  expect(leftOutText(left, "Lead", { name: "m.yaml", whens: [] })).toMatch(
    /has other rules for it now, without a `when`$/,
  );
  // Rules of other objects do not matter.
  const other = presentOf(TEXT.replace("is_partner", "is_vendor"));
  expect(failedWhens(left, "Lead", other)).toHaveLength(1);
});

test("a mapping that cannot be read costs only the text", async () => {
  const left = await leftBy(TEXT, "Lead", {});
  expect(leftOutText(left, "Lead", readWhens("no-such-file.yaml"))).toMatch(
    /; the mapping no-such-file\.yaml cannot be read here, so its `when` is not shown$/,
  );
  expect(readWhens("business-relation").whens).toEqual([]);
  expect(readWhens("salesforce").whens).toEqual(expect.any(Array));
});

test("a step without a pointer says what it knows", () => {
  expect(leftOutText({ reason: "when" }, "Lead", presentOf(TEXT))).toBe(
    "no rule's `when` is true for it (object Lead)",
  );
});
