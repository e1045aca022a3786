// Not the package itself: it loads the names in all its 80 languages.
import countries from "i18n-iso-countries/index.js";
import de from "i18n-iso-countries/langs/de.json" with { type: "json" };
import en from "i18n-iso-countries/langs/en.json" with { type: "json" };
import es from "i18n-iso-countries/langs/es.json" with { type: "json" };
import fr from "i18n-iso-countries/langs/fr.json" with { type: "json" };
import it from "i18n-iso-countries/langs/it.json" with { type: "json" };
import nl from "i18n-iso-countries/langs/nl.json" with { type: "json" };
import pt from "i18n-iso-countries/langs/pt.json" with { type: "json" };
import { isCountryCode } from "../../service-spec/iso-codes.ts";
import { fold } from "../fold.ts";

/** Common names that the lists do not have. EL and UK are codes of the EU. */
const ALIASES: Readonly<Record<string, string>> = {
  EL: "GR",
  UK: "GB",
  Britain: "GB",
  "Great Britain": "GB",
  England: "GB",
  Scotland: "GB",
  Wales: "GB",
  "Northern Ireland": "GB",
  Holland: "NL",
  "The Netherlands": "NL",
  "Viet Nam": "VN",
  Macedonia: "MK",
  "Czech Republic": "CZ",
  Czechia: "CZ",
  "Hong Kong SAR": "HK",
  Macau: "MO",
  Turkey: "TR",
  "Ivory Coast": "CI",
  Swaziland: "SZ",
  "Cape Verde": "CV",
  Burma: "MM",
  "U.S.": "US",
  America: "US",
  UAE: "AE",
  Korea: "KR",
  "South Korea": "KR",
  Russia: "RU",
  "Vatican City": "VA",
  Kosovo: "XK",
};

/** Made for the first value that is no code of two letters, because Node's own names take 10 MB. */
let codes: ReadonlyMap<string, string> | undefined;

function codesByName(): ReadonlyMap<string, string> {
  const made = new Map<string, string>();
  for (const { countries: names } of [en, de, fr, it, es, pt, nl]) {
    for (const [code, name] of Object.entries(names as Record<string, string | string[]>)) {
      for (const text of [name].flat()) {
        // If several languages have the same name, the first language wins.
        if (!made.has(fold(text))) made.set(fold(text), code);
      }
    }
  }
  for (const locale of ["en", "de", "fr", "it", "es", "pt", "nl"]) {
    // Adds short names; the lists above have official ones (États-Unis d'Amérique).
    const names = new Intl.DisplayNames(locale, { type: "region" });
    for (const code of Object.keys(countries.getAlpha2Codes())) {
      const name = fold(names.of(code) ?? "");
      if (!made.has(name)) made.set(name, code);
    }
  }
  for (const [name, code] of Object.entries(ALIASES)) made.set(fold(name), code);
  return made;
}

/** The ISO code of a country, from a code (letters or number) or its name in seven languages. */
export function toCountry(text: string): string | undefined {
  const upper = text.trim().toUpperCase();
  if (upper.length === 2 && isCountryCode(upper)) return upper;
  codes ??= codesByName();
  const code =
    codes.get(fold(text)) ??
    (/^[A-Z]{3}$/.test(upper) ? countries.alpha3ToAlpha2(upper) : undefined) ??
    (/^\d{3}$/.test(upper) ? countries.numericToAlpha2(upper) : undefined);
  return code !== undefined && isCountryCode(code) ? code : undefined;
}
