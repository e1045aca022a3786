/** Records of the invented CRM: payloads of every kind that the service specifies. */
import * as lists from "../core/service-spec/value-lists.ts";
import type { Random } from "./random.ts";

/** A country of the invented clients, with cities and names. No person in it is real. */
type Country = (typeof COUNTRIES)[number];

const words = (list: string): string[] => list.split(", ");

/** Code, language, dialling code, cities with their postal codes, streets, first names, last names. */
const TABLE = `
CH | de | +41 44 | Zürich=8001, Genève=1204, Lugano=6900, Chur=7000 | Bahnhofstrasse, Rämistrasse, Rue du Rhône, Via Nassa | Zoë, Jürg, Ursina, Reto, Chloé, Flurin | Müller, Brönnimann, Caduff, Ångström, de Weck, Schläpfer
LU | fr | +352 26 | Luxembourg=L-1118, Esch-sur-Alzette=L-4010, Mersch=L-7525 | Rue Aldringen, Boulevard Royal, Côte d’Eich | Anaïs, Loïc, Josée, Théo | Wagner-Schmit, Thill, D’Huart, Kieffer
PL | pl | +48 22 | Łódź=90-001, Kraków=31-042, Gdańsk=80-831 | ulica Świętojańska, Piotrkowska, Długa | Łukasz, Małgorzata, Żaneta, Grażyna | Wójcik, Śliwiński, Zając, Dąbrowska
GR | el | +30 210 | Αθήνα=105 57, Θεσσαλονίκη=546 24 | Οδός Ερμού, Λεωφόρος Συγγρού | Ελένη, Γιώργος, Δήμητρα | Παπαδοπούλου, Οικονόμου, Βασιλείου
JP | ja | +81 3 | 東京都千代田区=100-0001, 京都市=600-8216 | 丸の内, 銀座, 烏丸通 | さくら, 健太, 陽子 | 佐藤, 髙橋, 渡邉
GB | en | +44 20 | London=EC2V 7HN, Edinburgh=EH2 4DF, St Helier=JE2 3QA | King’s Road, St John’s Lane, Threadneedle Street | Siobhán, Oluwaseun, Nia, Callum | O’Brien, Ní Dhomhnaill, Featherstonehaugh, Okonkwo
TR | tr | +90 212 | İstanbul=34421, İzmir=35210 | İstiklâl Caddesi, Bağdat Caddesi | Işıl, Çağrı, Ömer | Ağaoğlu, Yılmaz, Öztürk
BR | pt | +55 11 | São Paulo=01310-100, Florianópolis=88010-400 | Avenida Paulista, Rua São João | João, Conceição, Íris | Gonçalves, Araújo, Magalhães Assunção
`;

const COUNTRIES = TABLE.trim()
  .split("\n")
  .map((row) => {
    const [code, language, diallingCode, cities, streets, firstNames, lastNames] = row.split(
      " | ",
    ) as [string, string, string, string, string, string, string];
    return {
      code,
      language,
      diallingCode,
      cities: words(cities).map((city) => city.split("=") as [name: string, postalCode: string]),
      streets: words(streets),
      firstNames: words(firstNames),
      lastNames: words(lastNames),
    };
  });

const COMPANY_NAMES = words(
  "Edelweiß, Polaris, Blue Lagoon, Sécurité Générale, Kōyō, Północ, Άλφα, Três Rios",
);

export type ClientRecord = Readonly<Record<string, string | boolean | readonly string[]>> & {
  readonly crmCode: string;
};

/** A crmCode may be any text: some of these have slashes, spaces and other scripts. */
function crmCodeOf(serial: number): string {
  switch (serial % 40) {
    case 7:
      return `ACME/Zürich #${serial}`;
    case 17:
      return `顧客-${serial}`;
    case 27:
      return `C ${serial}/ü+#1`;
    default:
      return `C-${10_000 + serial}`;
  }
}

/** @param serial number of the client, from 1; its crmCode is made from it */
export function createClient(random: Random, serial: number): ClientRecord {
  const country = random.pick(COUNTRIES);
  const shared = {
    crmCode: crmCodeOf(serial),
    crmId: random.uuid(),
    ...addressIn(country, random),
    countryOfResidence: country.code,
    fiscalCountry: random.chance(0.8) ? country.code : random.pick(COUNTRIES).code,
    language: country.language,
    phoneNumber: phoneIn(country, random),
    email: `client.${serial}@example.${random.pick(["com", "org", "net"])}`,
    service: random.some(lists.DEFAULT_TENANT_VALUES.service, 3),
    wealthSource: random.some(lists.WEALTH_SOURCES, 3),
    taxIdentificationNumber: `${country.code}${random.whole(100_000, 999_999)}`,
    bankAccountCountry: random.pick(COUNTRIES).code,
    originOfBusinessRelation: random.pick(lists.ORIGINS_OF_BUSINESS_RELATION),
    crsStatus: random.pick(lists.CRS_STATUSES),
    dmsLinkUrl: `https://dms.example.com/clients/${serial}?tab=kyc`,
    ...(random.chance(0.4) && { relationshipStatus: random.pick(lists.RELATIONSHIP_STATUSES) }),
    ...(random.chance(0.3) && { amlFrequency: random.pick(lists.AML_FREQUENCIES) }),
  };
  return random.chance(0.65)
    ? { ...shared, ...personIn(country, random) }
    : { ...shared, ...companyIn(country, random) };
}

function personIn(country: Country, random: Random) {
  const [firstName, lastName] = [random.pick(country.firstNames), random.pick(country.lastNames)];
  return {
    type: lists.PERSON_TYPE,
    firstName,
    lastName,
    name: `${firstName} ${lastName}`,
    nationality: country.code,
    birthDate: dateBetween(1938, 2004, random),
    placeOfBirth: random.pick(country.cities)[0],
    maritalStatus: random.pick(lists.MARITAL_STATUSES),
    ...(random.chance(0.2) && { maidenName: random.pick(country.lastNames) }),
  };
}

function companyIn(country: Country, random: Random) {
  const type = random.pick(lists.COMPANY_TYPES);
  return {
    type,
    name: `${random.pick(COMPANY_NAMES)} ${random.pick(country.lastNames)} ${type}`,
    countryOfOperation: country.code,
    incorporationDate: dateBetween(1901, 2025, random),
    industrySector: random.pick(lists.DEFAULT_TENANT_VALUES.industrySector),
    complexityOfBoStructure: random.pick(lists.DEFAULT_TENANT_VALUES.complexityOfBoStructure),
    legalForm: random.pick(lists.LEGAL_FORMS),
    vatNumber: `${country.code}${random.whole(10_000_000, 99_999_999)}`,
    listedCompany: random.chance(0.1),
    regulatedEntity: random.chance(0.3),
    stateOwnedEntity: false,
  };
}

const digits = (random: Random, count: number): string =>
  Array.from({ length: count }, () => random.whole(0, 9)).join("");

const phoneIn = (country: Country, random: Random): string =>
  `${country.diallingCode} ${digits(random, 3)} ${digits(random, 4)}`;

function addressIn(country: Country, random: Random) {
  const [city, postalCode] = random.pick(country.cities);
  return { address: `${random.pick(country.streets)} ${random.whole(1, 199)}`, postalCode, city };
}

const dateBetween = (first: number, last: number, random: Random): string =>
  [
    random.whole(first, last),
    String(random.whole(1, 12)).padStart(2, "0"),
    String(random.whole(1, 28)).padStart(2, "0"),
  ].join("-");

type Edit = (record: ClientRecord, random: Random) => Partial<ClientRecord>;

const countryOf = (record: ClientRecord, random: Random): Country =>
  COUNTRIES.find(({ code }) => code === record["countryOfResidence"]) ?? random.pick(COUNTRIES);

const EDITS: readonly Edit[] = [
  (record, random) => ({ phoneNumber: phoneIn(countryOf(record, random), random) }),
  (record, random) => addressIn(countryOf(record, random), random),
  (_, random) => {
    const country = random.pick(COUNTRIES);
    return { ...addressIn(country, random), countryOfResidence: country.code };
  },
  (_, random) => ({ relationshipStatus: random.pick(lists.RELATIONSHIP_STATUSES) }),
  (_, random) => ({ service: random.some(lists.DEFAULT_TENANT_VALUES.service, 4) }),
  (_, random) => ({ wealthSource: random.some(lists.WEALTH_SOURCES, 4) }),
  (_, random) => ({ crsStatus: random.pick(lists.CRS_STATUSES) }),
  (_, random) => ({ amlFrequency: random.pick(lists.AML_FREQUENCIES) }),
];

const OPTIONAL = ["dmsLinkUrl", "taxIdentificationNumber", "originOfBusinessRelation"] as const;

/** The record with at least one field changed; sometimes an optional field is removed. */
export function editClient(record: ClientRecord, random: Random): ClientRecord {
  const present = OPTIONAL.filter((field) => record[field] !== undefined);
  if (present.length > 0 && random.chance(0.08)) return without(record, random.pick(present));
  for (;;) {
    const edited = { ...record, ...random.pick(EDITS)(record, random) } as ClientRecord;
    if (JSON.stringify(edited) !== JSON.stringify(record)) return edited;
  }
}

/** The record with a typing mistake that the service would reject. */
export function addMistake(record: ClientRecord, random: Random): ClientRecord {
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
