/**
 * The types that the package exports, for a mapping that is a module instead of a file.
 *
 *     import type { MappedRecord, MapRecord } from "crmsync";
 *     export const mapRecord: MapRecord = (record, event): MappedRecord => ({ crmCode: …, fields: { … } });
 *
 * Without the type of what is returned, TypeScript accepts a field that the service does not have.
 *
 * The module may also export lists of names: `reads` (the CRM's fields that it needs), `notOwned` and
 * `fillEmpty` (FieldName[]: what others maintain at the service).
 *
 * This file imports nothing, so that the package ships one declaration file.
 */

/** A record as the CRM sends it. */
export type CrmRecord = Readonly<Record<string, unknown>>;

/** The parts of an event that a mapping may use, apart from the record. */
export interface EventContext {
  /** `crm.record.created`, `updated`, `deleted`, `restored` or `merged`. */
  readonly type: string;
  /** Where the event comes from, such as `/crm/acme`. */
  readonly source: string;
  /** `<object>/<recordId>`. */
  readonly subject: string;
  readonly object: string;
  readonly recordId: string;
  /** Whether the record may lack fields that the CRM has: what is absent is then not known, and what is null is empty. */
  readonly partial?: boolean | undefined;
}

/** The service's fields of persons and companies, except the crmCode. */
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
  /** The key at the service. It must be unique, and must never change for a record. */
  readonly crmCode: string;
  /**
   * Values as the CRM has them. crmsync converts each to the form of its field, as for a mapping
   * file. Not needed for a deletion.
   */
  readonly fields?: Readonly<Partial<Record<FieldName, unknown>>>;
}

/**
 * The function that a mapping module exports as `mapRecord`. It must be pure: no clock, no network.
 * @param record undefined for a deletion without a record; then only the crmCode is needed.
 * @returns undefined for records that must not be sent.
 */
export type MapRecord<Record extends object = CrmRecord> = (
  record: Record | undefined,
  event: EventContext,
) => MappedRecord | undefined | Promise<MappedRecord | undefined>;
