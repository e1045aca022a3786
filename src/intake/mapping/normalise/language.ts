import languages from "iso-639-1";
import { isCountryCode, isLanguageCode } from "../../../core/service-spec/iso-codes.ts";
import { fold, type Finder } from "../compare-texts.ts";

/** A language may be named in any of these languages. */
const NAMED_IN = ["en", "de", "fr", "it", "es", "pt", "nl"];

const OTHER_NAMES: Readonly<Record<string, string>> = {
  castellano: "es",
  castilian: "es",
  farsi: "fa",
  flamisch: "nl",
  flemish: "nl",
  rumantsch: "rm",
};

/** "English (United States)", "German - Austria": a region beside the name. */
const REGION = /\s*(?:\([^()]*\)| [-–] .*)$/;

/** Made for the first value that is a name, because most CRMs send codes. */
let codes: ReadonlyMap<string, string> | undefined;

function codesByName(): ReadonlyMap<string, string> {
  const made = new Map<string, string>();
  for (const locale of NAMED_IN) {
    const names = new Intl.DisplayNames(locale, { type: "language" });
    for (const code of languages.getAllCodes()) {
      const name = fold(names.of(code) ?? "");
      if (!made.has(name)) made.set(name, code);
    }
  }
  for (const code of languages.getAllCodes()) {
    for (const name of [languages.getName(code), languages.getNativeName(code)]) {
      if (!made.has(fold(name))) made.set(fold(name), code);
    }
  }
  for (const [name, code] of Object.entries(OTHER_NAMES)) made.set(name, code);
  return made;
}

/** CH, UK, SE: the code of a country in whose language it would be another word. Language codes have small letters. */
function isOfCountry(code: string): boolean {
  if (!/^[A-Z][A-Za-z]$/.test(code)) return false;
  const region = code.toUpperCase() === "UK" ? "GB" : code.toUpperCase();
  const spoken = new Intl.Locale(`und-${region}`).maximize().language;
  return isCountryCode(region) && spoken !== code.toLowerCase();
}

/**
 * The ISO code of a language, from a code (2 or 3 letters, maybe with a region) or its name.
 * @param own those of the mapping, by what the CRM writes.
 */
export function toLanguage(text: string, own?: Finder<string>): string | undefined {
  const named = own?.(text);
  if (named !== undefined || isOfCountry(text.trim())) return named;
  const tag = text.trim().toLowerCase();
  const code = /^([a-z]{2,3})(?:[-_][a-z0-9]+)*$/.exec(tag)?.[1];
  const known = code === undefined ? undefined : canonical(code);
  if (known !== undefined && isLanguageCode(known)) return known;
  codes ??= codesByName();
  return codes.get(fold(text)) ?? codes.get(fold(text.replace(REGION, "")));
}

/** The two-letter code for a withdrawn code (`iw`), or one of three letters (`ger`, `deu`), if there is one. */
function canonical(code: string): string {
  return Intl.getCanonicalLocales(code)[0] ?? code;
}
