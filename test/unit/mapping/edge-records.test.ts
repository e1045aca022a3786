/**
 * For any record: the payload is valid for the sandbox too, which implements the specification
 * separately, and each value that is left out has exactly one warning.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { cleanText } from "../../../src/intake/mapping/clean.ts";
import { FIELD_NAMES, traitsOf } from "../../../src/intake/mapping/fields.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type { CrmRecord, MappingResult } from "../../../src/intake/mapping/mapping.ts";
import { isZeroDate } from "../../../src/intake/mapping/normalise/date.ts";
import { isNothing as meansNothing } from "../../../src/intake/mapping/normalise/normalise.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { defaultRules } from "../../../src/sandbox/tenant-values.ts";
import { validateRelation } from "../../../src/sandbox/validate-relation.ts";
import { FIELDS_OF, type Variant } from "../../../src/core/service-spec/business-relation.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { validatePayload } from "../../../src/core/sync/validate.ts";
import { fixture } from "../../support/fixtures.ts";

const NO_WORDS: ReadonlySet<string> = new Set();

const OPTIONS = { explain: true, lists: DEFAULT_TENANT_LISTS };

const RULES = { tenant: defaultRules, unknownFields: "reject" } as const;

/** Ignores branches: each organisation has its own, and the sandbox's default list is empty. */
const problemsOf = (result: MappingResult): readonly string[] => {
  if (result.kind !== "mapped" || result.candidate === undefined) return [];
  const { branch: _, ...candidate } = result.candidate;
  const validated = validatePayload(candidate, DEFAULT_TENANT_LISTS);
  if (!validated.ok) return validated.problems.map(({ field, rule }) => `${field} ${rule}`);
  const checked = validateRelation(validated.payload, RULES);
  return checked.ok ? [] : checked.problems;
};

const rows: readonly (readonly unknown[])[] = [
  "lu CHE Atlantis de_DE deutsch 1966-13-45 31.12.1966 0001-01-01 2024-02-30 Client CLIENT".split(
    " ",
  ),
  ["single", "S.à r.l.", "Real estate", "gold", "family_office", "inheritance;gold; ;gold"],
  ["a+b@x.com", "A@B.lu", "not a mail", "x".repeat(101), "x".repeat(501), "y".repeat(400_000)],
  ["https://dms.example/ä", "https://dms.example/1", `https://d.example/${"p".repeat(490)}`],
  ["", " ", ";", "\u200b", "\u0000", "\ud800", "👩‍👩‍👧", "  Zo\u0065\u0308 ", "null", "__proto__"],
  [0, -1, 42, 1e21, 1_577_836_800_000, 1795224130716501506n.toString(), true, false, null],
  [[], [null], ["gold", "gold", null, "inheritance"], [["LU"]], ["a", "b"], [{}], {}],
  [
    { a: { b: null } },
    JSON.parse('{"__proto__":{"x":1}}') as unknown,
    "+352 621 555 014",
    "0049 12",
  ],
  ["5F2D9C11-7BA3-EF11-8A69-6045BD8F1A20", "yes", "nein", "constructor", "toString"],
];
const edges = rows.flat();

const anything = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...edges) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme" }) },
  { weight: 1, arbitrary: fc.anything({ maxDepth: 2, withNullPrototype: false }) },
);

/** Warnings about a value that is sent all the same. */
const SENT: ReadonlySet<string> = new Set(["kept_as_is", "suspicious"]);

/** Whether the value is empty, so that nothing is left out. A list may be text: items between ";". */
function isNothing(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return true;
  if (typeof value === "string") {
    const items = traitsOf(name).form === "list" ? value.split(";") : [value];
    const isDate = traitsOf(name).form === "date";
    return items.every((item) => {
      const text = cleanText(item);
      return text === "" || meansNothing(text, NO_WORDS) || (isDate && isZeroDate(text));
    });
  }
  return (
    Array.isArray(value) && (value as unknown[]).flat(3).every((item) => isNothing(item, name))
  );
}

describe.for(["Person", "Company"] as const)("a %s with every field of the service", (variant) => {
  const type = variant === "Person" ? "Person" : "Trust";
  const names = FIELD_NAMES.filter((name) => name !== "type");
  const mapping = compileMapping(
    readMappingFile(
      `version: 1
objects:
  - object: r
    crmCode: $event.recordId
    fields:
      type: { from: type }
${names.map((name) => `      ${name}: ${name}`).join("\n")}
`,
      "all.yaml",
    ),
  );
  const context = { type: "t", source: "/x", subject: "r/1", object: "r", recordId: "1" };
  const good: CrmRecord =
    variant === "Person" ? { type, firstName: "Ada", lastName: "M" } : { type, name: "Blue" };

  test.for(names)("%s", async (name) => {
    await fc.assert(
      fc.asyncProperty(anything, async (value) => {
        const record = structuredClone({ ...good, [name]: value });
        const result = await mapRecord(mapping, context, record, OPTIONS);
        expect(problemsOf(result)).toEqual([]);
        if (result.kind === "unmappable") {
          expect(result.problems.map(({ field }) => field)).toEqual([name]);
          return;
        }
        if (result.kind !== "mapped") throw new Error(result.kind);
        const { candidate = {}, warnings } = result;
        expect(warnings.every(({ field }) => field === name)).toBe(true);
        const shown = warnings.map(({ reason, value }) => `${reason} ${value}`);
        expect(new Set(shown).size).toBe(shown.length);
        const isThere = Object.hasOwn(candidate, name);
        if (!isOf(name, variant)) expect(isThere).toBe(false);
        // A list may keep some of its items; an invalid telephone number is sent, with a warning.
        if (!isThere && !isNothing(value, name)) expect(warnings.length).toBeGreaterThanOrEqual(1);
        if (traitsOf(name).form === "list") return;
        const kept = warnings.filter(({ reason }) => SENT.has(reason)).length;
        const isComposed = variant === "Person" && name === "name" && candidate[name] === "Ada M";
        const isKept = isThere && !(isComposed && warnings.length > 0);
        expect(warnings.length - kept).toBe(isKept || isNothing(value, name) ? 0 : 1);
      }),
      { numRuns: 150 },
    );
  });
});

const isOf = (name: string, variant: Variant) => FIELDS_OF[variant].has(name);

const PRESETS = [
  ["hubspot", "contact", fixture("hubspot/records/contact-512840017733.json")],
  ["hubspot", "company", fixture("hubspot/records/company-19022874410.json")],
  ["salesforce", "Contact", fixture("salesforce/records/contact-003Qk00000AbC12IAF.json")],
  ["salesforce", "Account", fixture("salesforce/records/account-001Qk00000XyZ34IAF.json")],
  ["dynamics", "contact", fixture("dynamics/records/contact-5f2d9c11.json")],
  ["dynamics", "account", fixture("dynamics/records/account-84aa3c55.json")],
  ["pipedrive", "person", (fixture("pipedrive/01-person-create.json") as { data: unknown }).data],
  [
    "pipedrive",
    "organization",
    (fixture("pipedrive/05-organization-change.json") as { data: unknown }).data,
  ],
  ["espocrm", "Contact", (fixture("espocrm/01-Contact.create.json") as unknown[])[0]],
  ["espocrm", "Account", (fixture("espocrm/05-Account.create.json") as unknown[])[0]],
  ["twenty", "person", (fixture("twenty/01-person.created.json") as { record: unknown }).record],
] as const;

/** Replaces some leaves or branches of a record by other values. */
const changed = (value: unknown): fc.Arbitrary<unknown> => {
  if (typeof value !== "object" || value === null) {
    return fc.oneof(
      { weight: 2, arbitrary: fc.constant(value) },
      { weight: 1, arbitrary: anything },
    );
  }
  const whole = Array.isArray(value)
    ? fc.tuple(...(value as unknown[]).map(changed))
    : fc.record(Object.fromEntries(Object.entries(value).map(([k, v]) => [k, changed(v)])), {
        requiredKeys: [],
      });
  return fc.oneof({ weight: 12, arbitrary: whole }, { weight: 1, arbitrary: anything });
};

describe("presets", () => {
  test.for(PRESETS)("%s: %s", { timeout: 60_000 }, async ([preset, object, record]) => {
    const file = join(import.meta.dirname, `../../../mappings/${preset}.yaml`);
    const mapping = compileMapping(readMappingFile(readFileSync(file, "utf8"), preset));
    const context = { type: "t", source: "/x", subject: `${object}/1`, object, recordId: "1" };
    let mapped = 0;
    await fc.assert(
      fc.asyncProperty(changed(record), async (given) => {
        if (typeof given !== "object" || given === null || Array.isArray(given)) return;
        const result = await mapRecord(mapping, context, given as CrmRecord, OPTIONS);
        expect(problemsOf(result)).toEqual([]);
        if (result.kind !== "mapped") return;
        mapped += 1;
        const shown = result.warnings.map(
          ({ field, reason, value }) => `${field} ${reason} ${value}`,
        );
        expect(new Set(shown).size).toBe(shown.length);
      }),
      { numRuns: 150 },
    );
    expect(mapped).toBeGreaterThan(0);
  });
});
