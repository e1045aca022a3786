/** What CRMs and people usually call the service's fields: one reviewed table, for suggestions and guesses. */
import { fold } from "./compare-texts.ts";

const NAMES: Readonly<Record<string, string>> = {
  firstName: "firstName, given name, forename, Vorname, prénom",
  lastName:
    "lastName, surname, family name, Nachname, Familienname, nom de famille, cognome, apellido",
  name: "name, full name, company name, organisation, organization, Firma, Firmenname, société",
  maidenName: "maidenName, birth name, Geburtsname, nom de naissance",
  nationality: "nationality, citizenship, Nationalität, Staatsangehörigkeit, nationalité",
  birthDate:
    "birthDate, date of birth, birthday, DOB, Geburtsdatum, Geburtstag, geb, date de naissance",
  placeOfBirth: "placeOfBirth, birthplace, Geburtsort, lieu de naissance",
  maritalStatus:
    "maritalStatus, civil status, family status, Zivilstand, Familienstand, état civil",
  fiscalCountry: "fiscalCountry, tax country, tax residence, Steuerdomizil",
  address: "address, street, street address, Strasse, Straße, Adresse, Anschrift, rue",
  postalCode: "postalCode, zip, zip code, postcode, PLZ, Postleitzahl, code postal, NPA, CAP",
  city: "city, town, Ort, Wohnort, Stadt, ville, localité, ciudad",
  countryOfResidence:
    "countryOfResidence, country, country code, Land, Wohnsitzland, pays, paese, país",
  language: "language, lang, Sprache, Korrespondenzsprache, langue, lingua, idioma",
  phoneNumber:
    "phoneNumber, phone, telephone, tel, mobile, mobile phone, Telefon, Mobil, Handy, Natel, téléphone",
  email: "email, mail, email address, courriel",
  relationshipStatus: "relationshipStatus, stage, lifecycle stage, Phase",
  relationStatus: "relationStatus, status",
  taxIdentificationNumber:
    "taxIdentificationNumber, tax id, tax number, TIN, Steuernummer, numéro fiscal",
  wealthSource: "wealthSource, source of wealth, Vermögensherkunft",
  countryOfOperation: "countryOfOperation, Tätigkeitsland",
  incorporationDate: "incorporationDate, founded, founded on, Gründungsdatum, gegründet",
  vatNumber: "vatNumber, VAT, VAT id, USt-ID, MWST-Nummer, numéro TVA",
  industrySector: "industrySector, industry, sector, Branche, secteur",
  legalForm: "legalForm, Rechtsform, forme juridique",
  listedCompany: "listedCompany, listed, börsenkotiert",
};

const FIELD_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(NAMES).flatMap(([field, names]) =>
    names.split(",").map((name) => [fold(name), field] as const),
  ),
);

/** The field that a name usually means; case, accents and punctuation do not matter. */
export const fieldOfName = (name: string): string | undefined => FIELD_OF.get(fold(name));

/** What may stand before or after a name without changing it: `mailing_city`, `cBirthDate`, `Tax_Id__c`. */
const ABOUT =
  /^(?:c|pc|cf|custom|person|contact|client|customer|company|mailing|billing|home|main|primary|private|account|kunde|privat|address\d?|\d+)$/;

/** The same for a name with such parts. */
export function fieldOfLongName(name: string): string | undefined {
  const parts = name
    .replace(/([a-z])(?=[A-Z])/g, "$1 ")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return fieldOfName(parts.filter((part) => !ABOUT.test(part)).join(" "));
}
