import { expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { guessMapping } from "../../../src/intake/mapping/guess-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type { CrmRecord } from "../../../src/intake/mapping/mapping.ts";
import { examineMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";

async function guess(record: CrmRecord, object?: string) {
  const guessed = await guessMapping({ record, object, from: "record.json", schema: "./s.json" });
  const { file, problems } = examineMappingFile(guessed.text, "m.yaml");
  expect(problems).toEqual([]);
  if (file === undefined) throw new Error(guessed.text);
  const { object: name } = guessed;
  const event = {
    type: "crm.record.updated",
    source: "/x",
    subject: `${name}/7`,
    object: name,
    recordId: "7",
  };
  const mapped = await mapRecord(compileMapping(file), event, record);
  const candidate = mapped.kind === "mapped" ? mapped.candidate : undefined;
  return { ...guessed, candidate, warnings: mapped.kind === "mapped" ? mapped.warnings : [] };
}

test("fields are found by their usual names, in several languages and nestings", async () => {
  const german = await guess({
    Kundennummer: 4711,
    Vorname: "Zoë",
    Nachname: "Muster",
    "E-Mail": "zoe@muster.example",
    Geburtsdatum: "31.12.1966",
    Straße: "Hauptstrasse 1",
    PLZ: "3000",
    Wohnort: "Bern",
    Land: "Schweiz",
    Telefon: null,
  });
  expect(german).toMatchObject({ object: "contact", idField: "Kundennummer" });
  expect(german.candidate).toMatchObject({
    crmCode: "contact-7",
    type: "Person",
    firstName: "Zoë",
    lastName: "Muster",
    email: "zoe@muster.example",
    birthDate: "1966-12-31",
    address: "Hauptstrasse 1",
    postalCode: "3000",
    city: "Bern",
    countryOfResidence: "CH",
  });
  expect(german.text).toContain("--id-from Kundennummer");
  const nested = await guess({
    id: "1",
    name: { firstName: "Ada", lastName: "Muster" },
    emails: [{ value: "ada@muster.example", primary: true }],
    mailing_city: "Bonn",
    Birthdate__c: "1966-12-31",
    phones: { primaryPhone: "+49 228 555010" },
  });
  expect(nested.candidate).toMatchObject({
    firstName: "Ada",
    email: "ada@muster.example",
    city: "Bonn",
    birthDate: "1966-12-31",
    phoneNumber: "+49228555010",
  });
  const company = await guess(
    { id: 1, name: "Muster AG", founded: "2001-11-05", vat: "CHE-1" },
    "account",
  );
  expect(company).toMatchObject({ object: "account" });
  expect(company.candidate).toMatchObject({
    type: "Company",
    name: "Muster AG",
    vatNumber: "CHE-1",
  });
  const whole = await guess({ id: 1, full_name: "Ada B. Muster", birthday: "1966-12-31" });
  expect(whole.candidate).toMatchObject({ firstName: "Ada", lastName: "B. Muster" });
});

test("what is not understood, and what is not used, stands in comments; no value of the record does", async () => {
  const record = {
    first_name: "Ada",
    last_name: "Muster",
    stage: "VIP",
    country: "Atlantis",
    shoeSize: 38,
    "odd name": "geheim",
  };
  const { text, warnings } = await guess(record);
  expect(warnings).toEqual([]);
  expect(text).toMatch(/# Left out: .*\n +# relationshipStatus: stage\n/);
  expect(text).toMatch(/# Left out: .*\n +# countryOfResidence: country\n/);
  expect(text).toContain("#   shoeSize\n#   `odd name`\n");
  for (const value of ["Ada", "Muster", "VIP", "Atlantis", "geheim"])
    expect(text).not.toContain(value);
});
