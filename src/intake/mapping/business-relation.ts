/**
 * The mapping for records that already have the service's fields. It is strict: senders of
 * payloads know the service's rules, so a value that breaks a rule makes a dead letter.
 */
import {
  crmCodeSchema,
  FIELDS_OF,
  isEmail,
  variantOf,
} from "../../core/service-spec/business-relation.ts";
import { problemsOf } from "../../core/event/problem.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { cleanCandidate, cleanText, hasDigit } from "./clean.ts";
import {
  hashOfText,
  type Mapping,
  type MappingResult,
  type WarningReason,
  warningOf,
} from "./mapping.ts";

export const businessRelationMapping: Mapping = {
  name: "business-relation",
  hash: hashOfText("business-relation"),
  objects: [],
  reads: new Set(),
  sources: [...new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company])].map((field) => {
    return { field, objects: [], sources: [[[field]]] };
  }),
  keeps: {},
  whens: [],
  webhooks: [],
  async map(context, record, lists, options = {}): Promise<MappingResult> {
    // The key is not cleaned like other texts: cleaning could give two records the same key.
    // A deletion without a record has only its subject.
    const crmCode = record === undefined ? context.recordId : record["crmCode"];
    const parsed = crmCodeSchema.safeParse(crmCode);
    if (!parsed.success) {
      const problems = problemsOf(parsed.error, crmCode).map((p) => ({ ...p, field: "crmCode" }));
      return { kind: "unmappable", crmCode: undefined, problems, warnings: [] };
    }
    const mapped = { kind: "mapped", crmCode: parsed.data } as const;
    if (record === undefined) return { ...mapped, candidate: undefined, warnings: [] };

    const { candidate, dropped } = cleanCandidate(record);
    const warnings = dropped.map((field) =>
      warningOf(field, "unknown_field", record[field], options),
    );
    for (const [field, reason] of Object.entries(junkIn(candidate))) {
      warnings.push(warningOf(field, reason, candidate[field], options));
      delete candidate[field];
    }
    if (context.partial === true) {
      for (const field of absentFrom(record)) {
        warnings.push(warningOf(field, "not_carried", field, options));
      }
    }
    return { ...mapped, candidate: inSpellingOf(lists, candidate), warnings };
  },
  async close() {},
};

/** Fields that a record may lack although the CRM has them. Its status is what the event says. */
const absentFrom = (record: Readonly<Record<string, unknown>>): string[] =>
  [...FIELDS_OF[variantOf(record["type"]) ?? "Person"]].filter(
    (field) => field !== "relationStatus" && !Object.hasOwn(record, field),
  );

/** Replaces each value by the list's own spelling: a list may hold blanks or letters that cleaning changes. */
function inSpellingOf(
  lists: TenantLists,
  candidate: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const spelt: Record<string, unknown> = {};
  for (const [field, { values }] of lists) {
    const value = candidate[field];
    if (values === undefined || value === undefined) continue;
    const own = (item: unknown) =>
      typeof item !== "string" || values.has(item)
        ? item
        : ([...values].find((listed) => cleanText(listed) === item) ?? item);
    spelt[field] = Array.isArray(value) ? value.map(own) : own(value);
  }
  return { ...candidate, ...spelt };
}

/** Optional fields whose value must not cost the whole record: it is left out. */
function junkIn(candidate: Readonly<Record<string, unknown>>): Record<string, WarningReason> {
  const { email, phoneNumber } = candidate;
  // The service's pattern rejects some valid addresses as well.
  const isAddress = email === undefined || (typeof email === "string" && isEmail(email));
  const isJunk = typeof phoneNumber === "string" && !hasDigit(phoneNumber);
  return {
    ...(!isAddress && { email: "not_accepted" as const }),
    ...(isJunk && { phoneNumber: "no_digits" as const }),
  };
}
