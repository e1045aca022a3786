/**
 * What the package exports: the types of a mapping that is a module instead of a file.
 *
 *     import type { MapRecord } from "crmsync";
 *     export const mapRecord: MapRecord = (record, event) => ({ crmCode: …, fields: { … } });
 *
 * It stands alone, so that the package ships one declaration file.
 */

/** A record as the CRM gives it. */
export type CrmRecord = Readonly<Record<string, unknown>>;

/** What a mapping may see of an event beside its record. */
export interface EventContext {
  /** `crm.record.created`, `updated`, `deleted`, `restored` or `merged`. */
  readonly type: string;
  /** Where the event comes from, such as `/crm/acme`. */
  readonly source: string;
  /** `<object>/<recordId>`. */
  readonly subject: string;
  readonly object: string;
  readonly recordId: string;
}

/** The service's fields of persons and companies, beside the crmCode. */
export type FieldName =
  | "type"
  | "name"
  | "firstName"
  | "lastName"
  | "maidenName"
  | "nationality"
  | "fiscalCountry"
  | "address"
  | "postalCode"
  | "city"
  | "countryOfResidence"
  | "countryOfOperation"
  | "language"
  | "birthDate"
  | "incorporationDate"
  | "placeOfBirth"
  | "phoneNumber"
  | "email"
  | "relationshipStatus"
  | "relationStatus"
  | "amlFrequency"
  | "crmId"
  | "service"
  | "branch"
  | "maritalStatus"
  | "taxIdentificationNumber"
  | "vatNumber"
  | "industrySector"
  | "complexityOfBoStructure"
  | "legalForm"
  | "wealthSource"
  | "bankAccountCountry"
  | "originOfBusinessRelation"
  | "crsStatus"
  | "listedCompany"
  | "regulatedEntity"
  | "stateOwnedEntity"
  | "dmsLinkUrl";

export interface MappedRecord {
  /** The key at the service: never the same for two records, and never another for one. */
  readonly crmCode: string;
  /**
   * Values as the CRM has them: each is brought into its field's form, as those of a mapping file
   * are. Not needed for a deletion.
   */
  readonly fields?: Readonly<Partial<Record<FieldName, unknown>>>;
}

/**
 * The function that a mapping module exports as `mapRecord`. It must be pure: no clock, no network.
 * @param record undefined for a deletion that came without one: only the crmCode is needed then.
 * @returns undefined for records that are none of the service's business.
 */
export type MapRecord<Record extends object = CrmRecord> = (
  record: Record | undefined,
  event: EventContext,
) => MappedRecord | undefined | Promise<MappedRecord | undefined>;
