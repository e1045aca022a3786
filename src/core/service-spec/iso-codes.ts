import countries from "i18n-iso-countries/codes.json" with { type: "json" };
import languages from "iso-639-1";

/** Often used for Kosovo, but not assigned by ISO, so the service does not accept it. */
const UNASSIGNED = "XK";

const countryCodes: ReadonlySet<string> = new Set(
  countries.map(([alpha2]) => alpha2 ?? "").filter((code) => code !== UNASSIGNED),
);
const languageCodes: ReadonlySet<string> = new Set(languages.getAllCodes());

/** ISO 3166-1 alpha-2 in upper case. */
export const isCountryCode = (code: string): boolean => countryCodes.has(code);

/** ISO 639-1 in lower case. */
export const isLanguageCode = (code: string): boolean => languageCodes.has(code);
