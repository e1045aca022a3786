/** Events and records of several objects: as the pages show them, and as preview understands them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { previewOne, unknownService } from "../../../src/whole/preview/preview-one.ts";
import { inputsOfEvent } from "../../../src/whole/preview/read-records.ts";

const page = (name: string) =>
  readFileSync(join(import.meta.dirname, "../../../docs", name), "utf8");

const blockAfter = (text: string, heading: string, language: string): string =>
  new RegExp(`${heading}\n[^]*?\`\`\`${language}\n([^]*?)\`\`\``).exec(text)?.[1] ?? "";

const FILE = readMappingFile(
  `version: 1\n${blockAfter(page("mapping.md"), "### Related records", "yaml")}`,
  "m.yaml",
);
const COMPILED = compileMapping(FILE);
const MAPPING: Mapping = {
  name: "m",
  objects: ["Contact"],
  reads: COMPILED.names,
  relations: COMPILED.relations,
  keeps: {},
  whens: [],
  webhooks: [],
  map: (event, record, lists, options) => mapRecord(COMPILED, event, record, { ...options, lists }),
  close: async () => {},
};

const event = (subject: string, data: object, type = "crm.record.updated") => ({
  specversion: "1.0",
  id: "1",
  source: "/crm/acme",
  type,
  subject,
  data,
});

async function previewOf(given: object) {
  const [input] = inputsOfEvent("x", given, MAPPING);
  if (input === undefined) throw new Error("no record");
  return previewOne(input, MAPPING, unknownService({}));
}

test("the event of the page is a change of the record to which its subject belongs", () => {
  const text = blockAfter(page("webhooks.md"), "### A record of several objects", "json");
  expect(parseEvent(JSON.parse(text), Date.parse("2026-11-20T10:00:00Z"))).toMatchObject({
    ok: true,
    event: {
      subject: "contact/4711",
      type: "crm.record.updated",
      data: { record: { no: 4711, employer: null, kyc: [{ status: "approved" }] } },
    },
  });
});

test("preview takes what the record has, and tells what it lacks", async () => {
  const record = { FirstName: "Ada", LastName: "Muster" };
  const kyc = [
    { Status__c: "New", TIN__c: "1" },
    { Status__c: "Approved", TIN__c: "2" },
  ];
  const whole = await previewOf(
    event("Contact/7", { record, related: { employer: { BillingCity: "Bern" }, kyc } }),
  );
  expect(whole.payload).toMatchObject({ city: "Bern", taxIdentificationNumber: "2" });
  expect(whole.warnings).toEqual([]);
  const { payload, warnings } = await previewOf(event("Contact/7", { record: { ...record, kyc } }));
  expect(payload).toMatchObject({ taxIdentificationNumber: "2" });
  expect(warnings).toMatchObject([{ field: "city", reason: "not_carried", value: "employer" }]);
});

test("preview says that an event of a part reads the record to which it belongs", async () => {
  const { crmCode, problems, result, why } = await previewOf(
    event("KYC__c/9", { record: { Id: "9" } }),
  );
  expect({ crmCode, problems, result, why }).toEqual({
    crmCode: undefined,
    problems: [],
    result: "to fetch",
    why: "the record to which it belongs",
  });
  // An account is no part: the mapping only reads it.
  expect(await previewOf(event("Account/9", { record: { Id: "9" } }))).toMatchObject({
    result: "dead letter",
  });
});
