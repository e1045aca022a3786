/** Records of the invented CRM: payloads as the service specifies them, in all their variety. */
import * as lists from "../service-spec/value-lists.ts";
import { FIRM_NAMES, PLACES } from "./places.ts";
import type { Place } from "./places.ts";
import type { Random } from "./random.ts";

export type ClientRecord = Readonly<Record<string, string | boolean | readonly string[]>> & {
  readonly crmCode: string;
};

/** crmCodes are whatever the CRM calls its records: plain numbers and harder ones. */
function crmCodeOf(serial: number): string {
  switch (serial % 40) {
    case 7:
      return `ACME/Zürich #${serial}`;
    case 17:
      return `顧客-${serial}`;
    case 27:
      return `C ${serial}%20?`;
    default:
      return `C-${10_000 + serial}`;
  }
}

/** @param serial number of the client, from 1; makes its crmCode. */
export function createClient(random: Random, serial: number): ClientRecord {
  const place = random.pick(PLACES);
  const shared = {
    crmCode: crmCodeOf(serial),
    crmId: random.uuid(),
    ...addressIn(place, random),
    countryOfResidence: place.country,
    fiscalCountry: random.chance(0.8) ? place.country : random.pick(PLACES).country,
    language: place.language,
    phoneNumber: phoneIn(place, random),
    email: `client.${serial}@example.${random.pick(["com", "org", "net"])}`,
    service: random.some(lists.DEFAULT_TENANT_VALUES.service, 3),
    wealthSource: random.some(lists.WEALTH_SOURCES, 3),
    taxIdentificationNumber: `${place.country}${random.whole(100_000, 999_999)}`,
    bankAccountCountry: random.pick(PLACES).country,
    originOfBusinessRelation: random.pick(lists.ORIGINS_OF_BUSINESS_RELATION),
    crsStatus: random.pick(lists.CRS_STATUSES),
    dmsLinkUrl: `https://dms.example.com/clients/${serial}?tab=kyc`,
    ...(random.chance(0.4) && { relationshipStatus: random.pick(lists.RELATIONSHIP_STATUSES) }),
    ...(random.chance(0.3) && { amlFrequency: random.pick(lists.AML_FREQUENCIES) }),
  };
  return random.chance(0.65)
    ? { ...shared, ...personIn(place, random) }
    : { ...shared, ...companyIn(place, random) };
}

function personIn(place: Place, random: Random) {
  const [firstName, lastName] = [random.pick(place.firstNames), random.pick(place.lastNames)];
  return {
    type: lists.PERSON_TYPE,
    firstName,
    lastName,
    name: `${firstName} ${lastName}`,
    nationality: place.country,
    birthDate: dateBetween(1938, 2004, random),
    placeOfBirth: random.pick(place.cities)[0],
    maritalStatus: random.pick(lists.MARITAL_STATUSES),
    ...(random.chance(0.2) && { maidenName: random.pick(place.lastNames) }),
  };
}

function companyIn(place: Place, random: Random) {
  const type = random.pick(lists.COMPANY_TYPES);
  return {
    type,
    name: `${random.pick(FIRM_NAMES)} ${random.pick(place.lastNames)} ${type}`,
    countryOfOperation: place.country,
    incorporationDate: dateBetween(1901, 2025, random),
    industrySector: random.pick(lists.DEFAULT_TENANT_VALUES.industrySector),
    complexityOfBoStructure: random.pick(lists.DEFAULT_TENANT_VALUES.complexityOfBoStructure),
    legalForm: random.pick(lists.LEGAL_FORMS),
    vatNumber: `${place.country}${random.whole(10_000_000, 99_999_999)}`,
    listedCompany: random.chance(0.1),
    regulatedEntity: random.chance(0.3),
    stateOwnedEntity: false,
  };
}

const digits = (random: Random, count: number): string =>
  Array.from({ length: count }, () => random.whole(0, 9)).join("");

const phoneIn = (place: Place, random: Random): string =>
  `${place.dialling} ${digits(random, 3)} ${digits(random, 4)}`;

function addressIn(place: Place, random: Random) {
  const [city, postalCode] = random.pick(place.cities);
  return { address: `${random.pick(place.streets)} ${random.whole(1, 199)}`, postalCode, city };
}

const dateBetween = (first: number, last: number, random: Random): string =>
  [
    random.whole(first, last),
    String(random.whole(1, 12)).padStart(2, "0"),
    String(random.whole(1, 28)).padStart(2, "0"),
  ].join("-");

type Edit = (record: ClientRecord, random: Random) => Partial<ClientRecord>;

const placeOf = (record: ClientRecord, random: Random): Place =>
  PLACES.find(({ country }) => country === record["countryOfResidence"]) ?? random.pick(PLACES);

const EDITS: readonly Edit[] = [
  (record, random) => ({ phoneNumber: phoneIn(placeOf(record, random), random) }),
  (record, random) => addressIn(placeOf(record, random), random),
  (_, random) => {
    const place = random.pick(PLACES);
    return { ...addressIn(place, random), countryOfResidence: place.country };
  },
  (_, random) => ({ relationshipStatus: random.pick(lists.RELATIONSHIP_STATUSES) }),
  (_, random) => ({ service: random.some(lists.DEFAULT_TENANT_VALUES.service, 4) }),
  (_, random) => ({ wealthSource: random.some(lists.WEALTH_SOURCES, 4) }),
  (_, random) => ({ crsStatus: random.pick(lists.CRS_STATUSES) }),
  (_, random) => ({ amlFrequency: random.pick(lists.AML_FREQUENCIES) }),
];

const OPTIONAL = ["dmsLinkUrl", "taxIdentificationNumber", "originOfBusinessRelation"] as const;

/** The record with something really changed; now and then an optional field is emptied. */
export function editClient(record: ClientRecord, random: Random): ClientRecord {
  const present = OPTIONAL.filter((field) => record[field] !== undefined);
  if (present.length > 0 && random.chance(0.08)) return without(record, random.pick(present));
  for (;;) {
    const edited = { ...record, ...random.pick(EDITS)(record, random) } as ClientRecord;
    if (JSON.stringify(edited) !== JSON.stringify(record)) return edited;
  }
}

/** The record as somebody mistyped it: nothing that the service would take. */
export function spoilClient(record: ClientRecord, random: Random): ClientRecord {
  const person = record["type"] === lists.PERSON_TYPE;
  const dateField = person ? "birthDate" : "incorporationDate";
  return random.pick<(record: ClientRecord) => ClientRecord>([
    (good) => without(good, person ? "lastName" : "name"),
    (good) => without(good, "type"),
    (good) => ({ ...good, [dateField]: "1990-02-30" }),
    (good) => ({ ...good, countryOfResidence: "UK" }),
    (good) => ({ ...good, wealthSource: ["under_the_mattress"] }),
  ])(record);
}

const without = (record: ClientRecord, field: string): ClientRecord =>
  Object.fromEntries(Object.entries(record).filter(([name]) => name !== field)) as ClientRecord;
