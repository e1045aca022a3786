import {
  AML_FREQUENCIES,
  COMPANY_TYPES,
  CRS_STATUSES,
  LEGAL_FORMS,
  MARITAL_STATUSES,
  ORIGINS_OF_BUSINESS_RELATION,
  PERSON_TYPE,
  RELATION_STATUSES,
  RELATIONSHIP_STATUSES,
  WEALTH_SOURCES,
  type TenantField,
} from "../core/service-spec/value-lists.ts";
import {
  CRM_CODE_MAX_LENGTH,
  DMS_LINK_URL_MAX_LENGTH,
  ISO_CODE_LENGTH,
} from "../core/service-spec/limits.ts";
import type { FormatName } from "./formats.ts";

/**
 * The two variants of a business relation as JSON Schema. The validator interprets these objects,
 * and the OpenAPI document publishes them. `x-tenant-values` names the tenant's list that must
 * contain the value.
 */
export interface StringSchema {
  readonly type: "string";
  readonly enum?: readonly string[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: FormatName;
  readonly default?: string;
  readonly description?: string;
  readonly "x-tenant-values"?: TenantField;
}
export interface ArraySchema {
  readonly type: "array";
  readonly items: StringSchema;
  readonly description?: string;
}
export interface BooleanSchema {
  readonly type: "boolean";
  readonly description?: string;
}
export type FieldSchema = StringSchema | ArraySchema | BooleanSchema;

export interface VariantSchema {
  readonly type: "object";
  readonly description: string;
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, FieldSchema>>;
}

/** Source: spec, "Person variant", field `email`. */
const EMAIL_PATTERN = String.raw`^[\w\.-]+@[\w\.-]+\.\w{2,}$`;

const text: StringSchema = { type: "string" };
const date: StringSchema = { type: "string", format: "date" };
const flag: BooleanSchema = { type: "boolean" };
const oneOf = (values: readonly string[]): StringSchema => ({ type: "string", enum: values });
const country: StringSchema = {
  type: "string",
  maxLength: ISO_CODE_LENGTH,
  format: "iso-3166-1-alpha-2",
};
const tenantValue = (field: TenantField): StringSchema => ({
  type: "string",
  "x-tenant-values": field,
});

/** Fields that have the same rule in both variants. */
const shared = {
  name: text,
  fiscalCountry: country,
  address: { ...text, description: "Street address." },
  postalCode: text,
  city: text,
  countryOfResidence: country,
  language: { type: "string", maxLength: ISO_CODE_LENGTH, format: "iso-639-1" },
  phoneNumber: text,
  email: { type: "string", format: "email", pattern: EMAIL_PATTERN },
  relationshipStatus: { ...oneOf(RELATIONSHIP_STATUSES), default: "Client" },
  relationStatus: { ...oneOf(RELATION_STATUSES), default: "active" },
  amlFrequency: {
    ...oneOf(AML_FREQUENCIES),
    default: "ongoing",
    description: "How often AML checks run.",
  },
  crmId: { type: "string", format: "uuid" },
  crmCode: {
    type: "string",
    minLength: 1,
    maxLength: CRM_CODE_MAX_LENGTH,
    description: "The caller's own unique identifier; characters are Unicode code points.",
  },
  service: { type: "array", items: tenantValue("service") },
  branch: { type: "array", items: tenantValue("branch") },
  taxIdentificationNumber: text,
  wealthSource: { type: "array", items: oneOf(WEALTH_SOURCES) },
  originOfBusinessRelation: oneOf(ORIGINS_OF_BUSINESS_RELATION),
  crsStatus: { ...oneOf(CRS_STATUSES), description: "Common Reporting Standard status." },
  dmsLinkUrl: { type: "string", format: "uri", maxLength: DMS_LINK_URL_MAX_LENGTH },
} satisfies Record<string, FieldSchema>;

export const PERSON: VariantSchema = {
  type: "object",
  description: "A natural person.",
  required: ["type", "crmCode", "firstName", "lastName"],
  properties: {
    type: oneOf([PERSON_TYPE]),
    ...shared,
    firstName: text,
    lastName: text,
    maidenName: text,
    nationality: country,
    birthDate: date,
    placeOfBirth: text,
    maritalStatus: oneOf(MARITAL_STATUSES),
    bankAccountCountry: country,
  },
};

export const COMPANY: VariantSchema = {
  type: "object",
  description: "A company, trust, fund or another entity.",
  required: ["type", "crmCode", "name"],
  properties: {
    type: oneOf(COMPANY_TYPES),
    ...shared,
    countryOfOperation: country,
    incorporationDate: date,
    vatNumber: text,
    industrySector: tenantValue("industrySector"),
    complexityOfBoStructure: tenantValue("complexityOfBoStructure"),
    legalForm: oneOf(LEGAL_FORMS),
    // The spec gives only a length for this field, not "ISO": any two characters are valid.
    bankAccountCountry: { type: "string", maxLength: ISO_CODE_LENGTH },
    listedCompany: flag,
    regulatedEntity: flag,
    stateOwnedEntity: flag,
  },
};

/** The variant that a value of the discriminator `type` selects. */
export function variantOf(type: unknown): VariantSchema | undefined {
  if (typeof type !== "string") return undefined;
  if (type === PERSON_TYPE) return PERSON;
  return COMPANY_TYPES.some((known) => known === type) ? COMPANY : undefined;
}
