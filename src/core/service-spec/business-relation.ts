/**
 * The service's resource as zod schemas: every rule of both variants.
 * Source: spec, "Resources and their fields". The tenant's own value lists are known only at run
 * time; see tenant-lists.ts.
 */
import { z } from "zod";
import { characters } from "./characters.ts";
import { newCrmCodeProblem } from "./crm-code.ts";
import { isCountryCode, isLanguageCode } from "./iso-codes.ts";
import { DMS_LINK_URL_MAX_LENGTH } from "./limits.ts";
import * as lists from "./value-lists.ts";

/** A rule for a string, with the text that names the rule in a problem. */
const rule = (message: string, holds: (text: string) => boolean) =>
  z.string().min(1, { abort: true }).refine(holds, { error: message });

const text = z.string().min(1);
const country = rule("must be an ISO 3166-1 alpha-2 country code in upper case", isCountryCode);
const language = rule("must be an ISO 639-1 language code in lower case", isLanguageCode);
const date = z.iso.date({ error: "must be a date that exists, as YYYY-MM-DD" });
const uuid = z.guid({ error: "must be a UUID" });

const EMAIL_PATTERN = /^[\w.-]+@[\w.-]+\.\w{2,}$/;

/** The longest mail address (RFC 5321), checked first: the pattern takes quadratic time. */
const EMAIL_MAX_LENGTH = 320;

const emailFormat = z.email();

/** Both the spec's pattern and its format. The pattern rejects many valid addresses (a+b@x.com). */
export const isEmail = (value: string): boolean =>
  value.length <= EMAIL_MAX_LENGTH &&
  EMAIL_PATTERN.test(value) &&
  // A part of a host name does not end in a hyphen (RFC 1123); zod lets it.
  !/@.*-(?:\.|$)/.test(value) &&
  emailFormat.safeParse(value).success;

const email = rule(
  "must be an e-mail address that the service's pattern accepts (letters, digits, _ . - only)",
  isEmail,
);

const URI_PATTERN = /^[A-Za-z][A-Za-z0-9+.-]*:[\w\-.~:/?#@!$&'()*+,;=%]+$/;
/** RFC 3986: brackets enclose the address of an IPv6 host, and stand nowhere else. */
const IPV6_HOST = /^([^/?#[\]]+:\/\/(?:[^/?#[\]]*@)?)\[[0-9A-Fa-f:.]+\]/;
/** Schemes whose addresses name a host. `URL` also takes http:/host for one. */
const HAS_AUTHORITY = /^(?:https?|ftps?|wss?):/i;

const uri = rule(
  `must be an absolute URI of at most ${DMS_LINK_URL_MAX_LENGTH} characters`,
  (value) =>
    characters(value) <= DMS_LINK_URL_MAX_LENGTH &&
    URI_PATTERN.test(value.replace(IPV6_HOST, "$1ipv6")) &&
    value.indexOf("#") === value.lastIndexOf("#") &&
    (!HAS_AUTHORITY.test(value) || /^[a-z]+:\/\/[^/?#]/i.test(value)) &&
    !/%(?![0-9A-Fa-f]{2})/.test(value) &&
    URL.canParse(value),
);

export const crmCodeSchema = z.string().superRefine((code, context) => {
  const problem = newCrmCodeProblem(code);
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
});

/** Fields that have the same rules in both variants. */
const shared = {
  fiscalCountry: country.optional(),
  address: text.optional(),
  postalCode: text.optional(),
  city: text.optional(),
  countryOfResidence: country.optional(),
  language: language.optional(),
  phoneNumber: text.optional(),
  email: email.optional(),
  relationshipStatus: z.enum(lists.RELATIONSHIP_STATUSES).default("Client"),
  relationStatus: z.enum(lists.RELATION_STATUSES).default("active"),
  amlFrequency: z.enum(lists.AML_FREQUENCIES).default("ongoing"),
  crmId: uuid.optional(),
  crmCode: crmCodeSchema,
  service: z.array(text).optional(),
  branch: z.array(text).optional(),
  taxIdentificationNumber: text.optional(),
  wealthSource: z.array(z.enum(lists.WEALTH_SOURCES)).optional(),
  bankAccountCountry: country.optional(),
  originOfBusinessRelation: z.enum(lists.ORIGINS_OF_BUSINESS_RELATION).optional(),
  crsStatus: z.enum(lists.CRS_STATUSES).optional(),
  dmsLinkUrl: uri.optional(),
};

export const personSchema = z.strictObject({
  type: z.literal(lists.PERSON_TYPE),
  name: text.optional(),
  firstName: text,
  lastName: text,
  maidenName: text.optional(),
  nationality: country.optional(),
  birthDate: date.optional(),
  placeOfBirth: text.optional(),
  maritalStatus: z.enum(lists.MARITAL_STATUSES).optional(),
  ...shared,
});

export const companySchema = z.strictObject({
  type: z.enum(lists.COMPANY_TYPES),
  name: text,
  countryOfOperation: country.optional(),
  incorporationDate: date.optional(),
  vatNumber: text.optional(),
  industrySector: text.optional(),
  complexityOfBoStructure: text.optional(),
  legalForm: z.enum(lists.LEGAL_FORMS).optional(),
  listedCompany: z.boolean().optional(),
  regulatedEntity: z.boolean().optional(),
  stateOwnedEntity: z.boolean().optional(),
  ...shared,
});

export type Person = z.output<typeof personSchema>;
export type Company = z.output<typeof companySchema>;

/** A body that the service accepts, with the spec's defaults filled in. */
export type BusinessRelation = Person | Company;

export type Variant = "Person" | "Company";

/** The variant that a value of `type` selects; undefined when the spec has no such value. */
export function variantOf(type: unknown): Variant | undefined {
  if (type === lists.PERSON_TYPE) return "Person";
  return (lists.COMPANY_TYPES as readonly unknown[]).includes(type) ? "Company" : undefined;
}

/** The fields that a relation of each variant must have. */
export const REQUIRED_OF: Record<Variant, ReadonlySet<string>> = {
  Person: requiredIn(personSchema.shape),
  Company: requiredIn(companySchema.shape),
};

function requiredIn(shape: Readonly<Record<string, z.ZodType>>): ReadonlySet<string> {
  const fields = Object.entries(shape);
  return new Set(
    fields.flatMap(([name, field]) => (field.safeParse(undefined).success ? [] : [name])),
  );
}

/** The spec's names of all fields of each variant. */
export const FIELDS_OF: Record<Variant, ReadonlySet<string>> = {
  Person: new Set(Object.keys(personSchema.shape)),
  Company: new Set(Object.keys(companySchema.shape)),
};
