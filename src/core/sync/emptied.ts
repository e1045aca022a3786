/**
 * Which fields an update empties at the service, and when that is unusual: an integration user that has lost a right,
 * or a property that was renamed, empties one field of every record that changes. Pure.
 */
import { variantOf, type Variant } from "../service-spec/business-relation.ts";
import { meaningfulFields } from "./fingerprint.ts";

type Body = Readonly<Record<string, unknown>>;

/** The fields that a relation may lack. Rows of the ledger have their places as letters: add new fields at the end. */
export const OPTIONAL =
  `address amlFrequency bankAccountCountry birthDate branch city complexityOfBoStructure
  countryOfOperation countryOfResidence crmId crsStatus dmsLinkUrl email fiscalCountry
  incorporationDate industrySector language legalForm listedCompany maidenName maritalStatus
  name nationality originOfBusinessRelation phoneNumber placeOfBirth postalCode
  regulatedEntity relationStatus relationshipStatus service stateOwnedEntity
  taxIdentificationNumber vatNumber wealthSource`.split(/\s+/);

/** Fields that every relation has, or never has, by their letters. With those above they are all but the crmCode. */
const OTHERS: Readonly<Record<string, string>> = { F: "firstName", L: "lastName", T: "type" };
export const ALWAYS_FILLED = Object.values(OTHERS);

/** More than this share of the updates that could empty a field is unusual. */
const UNUSUAL_SHARE = 0.1;

/** The optional fields in which a body has a value, a letter each. */
export const filledIn = (body: Body): string =>
  (meaningfulFields(body) ?? [])
    .map(([field]) => OPTIONAL.indexOf(field))
    .filter((place) => place >= 0)
    .map((place) => place.toString(36))
    .join("");

export const fieldsOfLetters = (letters: string): string[] =>
  letters
    .split("")
    .map((letter) => OTHERS[letter] ?? OPTIONAL[Number.parseInt(letter, 36)] ?? letter);

export const lettersOf = (fields: readonly string[]): string =>
  fields.map((field) => LETTERS.get(field) ?? "").join("");

const LETTERS: ReadonlyMap<string, string> = new Map([
  ...OPTIONAL.map((field, place) => [field, place.toString(36)] as const),
  ...Object.entries(OTHERS).map(([letter, field]) => [field, letter] as const),
]);

/** An update of a relation, as it is counted. */
export interface FieldUpdate {
  /** Letters of the fields that had a value. */
  readonly filled: string;
  /** Letters of those that the update empties. */
  readonly emptied: string;
}

/** Of a relation of which is not known what it has: a letter that no field has. */
export const UNKNOWN_UPDATE: FieldUpdate = { filled: "U", emptied: "U" };

/** What a ledger row says of the service's fields. */
interface KnownFields {
  readonly fingerprint: string | undefined;
  readonly filled?: string | undefined;
  readonly variant: Variant | undefined;
}

/** Undefined: the relation ends, so that its fields no longer matter. */
export function fieldUpdate(body: Body, known: KnownFields): FieldUpdate | undefined {
  const { fingerprint, filled, variant } = known;
  if (body["relationStatus"] === "terminated") return undefined;
  if (fingerprint === undefined || filled === undefined) return UNKNOWN_UPDATE;
  if (variant !== variantOf(body["type"])) return undefined;
  const after = filledIn(body);
  const emptied = filled.split("").filter((letter) => !after.includes(letter));
  return { filled, emptied: emptied.join("") };
}

/** How many relations were updated within an hour that had a value in one field, and how many of them lost it. */
export interface EmptiedField {
  readonly field: string;
  readonly updated: number;
  readonly emptied: number;
}

/** @param limit as many relations are believed to be emptied in an hour, whatever their share */
export const isUnusual = ({ emptied, updated }: EmptiedField, limit: number): boolean =>
  emptied > limit && emptied > updated * UNUSUAL_SHARE;
