/** What a mapping needs to know about each field of the service: its form and its rule. */
import type { z } from "zod";
import {
  companySchema,
  FIELDS_OF,
  personSchema,
  type Variant,
} from "../../core/service-spec/business-relation.ts";
import * as lists from "../../core/service-spec/value-lists.ts";

/** The forms to which values are converted: the field's own form, unless `as` names another. */
export const FORMS = [
  "text",
  "country",
  "nationality",
  "language",
  "date",
  "email",
  "phone",
  "boolean",
  "number",
  "code",
  "list",
] as const;
export type Form = (typeof FORMS)[number];

/** Fields whose value crmsync decides at each change. */
export const NEVER_KEPT: ReadonlySet<string> = new Set(["type", "relationStatus"]);

interface FieldTraits {
  readonly form: Form;
  /** The closed list of values; for a list field, of its items. */
  readonly values?: readonly string[];
}

const TYPES = [lists.PERSON_TYPE, ...lists.COMPANY_TYPES] as const;

/** Fields that are not plain text. */
const TRAITS: Readonly<Record<string, FieldTraits>> = {
  type: { form: "text", values: TYPES },
  nationality: { form: "nationality" },
  fiscalCountry: { form: "country" },
  countryOfResidence: { form: "country" },
  countryOfOperation: { form: "country" },
  bankAccountCountry: { form: "country" },
  language: { form: "language" },
  birthDate: { form: "date" },
  incorporationDate: { form: "date" },
  phoneNumber: { form: "phone" },
  postalCode: { form: "code" },
  taxIdentificationNumber: { form: "code" },
  vatNumber: { form: "code" },
  email: { form: "email" },
  relationshipStatus: { form: "text", values: lists.RELATIONSHIP_STATUSES },
  relationStatus: { form: "text", values: lists.RELATION_STATUSES },
  amlFrequency: { form: "text", values: lists.AML_FREQUENCIES },
  maritalStatus: { form: "text", values: lists.MARITAL_STATUSES },
  legalForm: { form: "text", values: lists.LEGAL_FORMS },
  originOfBusinessRelation: { form: "text", values: lists.ORIGINS_OF_BUSINESS_RELATION },
  crsStatus: { form: "text", values: lists.CRS_STATUSES },
  service: { form: "list" },
  branch: { form: "list" },
  wealthSource: { form: "list", values: lists.WEALTH_SOURCES },
  listedCompany: { form: "boolean" },
  regulatedEntity: { form: "boolean" },
  stateOwnedEntity: { form: "boolean" },
};

const PLAIN: FieldTraits = { form: "text" };

/** Every field of the service except the crmCode, which has an expression of its own. */
export const FIELD_NAMES: readonly string[] = [
  ...new Set([...FIELDS_OF.Person, ...FIELDS_OF.Company]),
].filter((name) => name !== "crmCode");

export const traitsOf = (field: string): FieldTraits => TRAITS[field] ?? PLAIN;

const SHAPES: Record<Variant, Readonly<Record<string, z.ZodType>>> = {
  Person: personSchema.shape,
  Company: companySchema.shape,
};

/** The spec's rule for one field of a variant; undefined when the variant lacks the field. */
export const ruleOf = (field: string, variant: Variant): z.ZodType | undefined =>
  FIELDS_OF[variant].has(field) ? SHAPES[variant][field] : undefined;

/** Fields that the service requires of every relation of the variant. */
export const REQUIRED_FIELDS: Record<Variant, readonly string[]> = {
  Person: ["firstName", "lastName"],
  Company: ["name"],
};
