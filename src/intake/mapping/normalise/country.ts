// Not the package itself: it loads the names in all its 80 languages.
import countries from "i18n-iso-countries/index.js";
import de from "i18n-iso-countries/langs/de.json" with { type: "json" };
import en from "i18n-iso-countries/langs/en.json" with { type: "json" };
import es from "i18n-iso-countries/langs/es.json" with { type: "json" };
import fr from "i18n-iso-countries/langs/fr.json" with { type: "json" };
import it from "i18n-iso-countries/langs/it.json" with { type: "json" };
import nl from "i18n-iso-countries/langs/nl.json" with { type: "json" };
import pt from "i18n-iso-countries/langs/pt.json" with { type: "json" };
import deDemonyms from "i18n-nationality/langs/de.json" with { type: "json" };
import enDemonyms from "i18n-nationality/langs/en.json" with { type: "json" };
import esDemonyms from "i18n-nationality/langs/es.json" with { type: "json" };
import frDemonyms from "i18n-nationality/langs/fr.json" with { type: "json" };
import itDemonyms from "i18n-nationality/langs/it.json" with { type: "json" };
import nlDemonyms from "i18n-nationality/langs/nl.json" with { type: "json" };
import { isCountryCode } from "../../../core/service-spec/iso-codes.ts";
import { fold } from "../compare-texts.ts";
import { AMBIGUOUS, MORE_NAMES } from "./country-names.ts";

/** Made for the first value that is no code of two letters, because Node's own names take 10 MB. */
let codes: ReadonlyMap<string, string> | undefined;

function codesByName(): ReadonlyMap<string, string> {
  const lists = [en, de, fr, it, es, pt, nl].map((list) => list.countries);
  // Adds short names; the lists have official ones (États-Unis d'Amérique).
  const short = ["en", "de", "fr", "it", "es", "pt", "nl"].map((locale) => {
    const names = new Intl.DisplayNames(locale, { type: "region" });
    const known = Object.keys(countries.getAlpha2Codes());
    return Object.fromEntries(known.map((code) => [code, names.of(code) ?? ""]));
  });
  const made = codesIn([...lists, ...short]);
  for (const [code, names] of Object.entries(MORE_NAMES)) {
    for (const spelling of namesIn(names).flatMap(spellingsOf)) made.set(spelling, code);
  }
  for (const spelling of namesIn(AMBIGUOUS).flatMap(spellingsOf)) made.delete(spelling);
  made.delete("");
  return made;
}

/** @param lists the name, or names, of each code. A name of two is left out: no country is better than a wrong one. */
function codesIn(lists: readonly Readonly<Record<string, string | string[]>>[]) {
  const made = new Map<string, string>();
  const twice = new Set<string>();
  for (const [code, name] of lists.flatMap((list) => Object.entries(list))) {
    for (const spelling of [name].flat().flatMap(spellingsOf)) {
      const known = made.get(spelling) ?? code;
      if (known !== code) twice.add(spelling);
      made.set(spelling, known);
    }
  }
  for (const spelling of twice) made.delete(spelling);
  return made;
}

/** `Swiss`, `deutsch`: what people call those of a country; made for the first one. */
let demonyms: ReadonlyMap<string, string> | undefined;

/** A country, or a demonym in one of six languages. */
export function toNationality(text: string): string | undefined {
  const country = toCountry(text);
  if (country !== undefined) return country;
  const lists = [enDemonyms, deDemonyms, frDemonyms, itDemonyms, esDemonyms, nlDemonyms];
  demonyms ??= codesIn(lists.map(({ nationalities }) => nationalities));
  return spellingsOf(text)
    .map((spelling) => demonyms?.get(spelling))
    .find((code) => code !== undefined && isCountryCode(code));
}

const namesIn = (list: string): string[] => list.trim().split(/;\s+/);

/** Words that do not distinguish one country from another. */
const SMALL = /^(?:the|of|and|la|le|les|l|der|die|das|et|und|y|e|de|du|des|del|di|en|van)$/;

/** As people write one name: with and without accents, in Swiss and in ASCII, its words in another order. */
function spellingsOf(name: string): string[] {
  const swiss = name.toLowerCase().replaceAll("ß", "ss").replaceAll("&", " and ");
  const ascii = swiss.replaceAll(/[äöü]/g, (letter) => ASCII[letter] ?? letter);
  return [swiss, ascii].flatMap((text) => [fold(text), wordsOf(text)]);
}

const ASCII: Readonly<Record<string, string>> = { ä: "ae", ö: "oe", ü: "ue" };

/** "Iran, Islamic Republic of" has the same words as "Islamic Republic of Iran". */
function wordsOf(text: string): string {
  const words = text
    .normalize("NFKD")
    .replaceAll(/[\p{M}'’]/gu, "")
    .split(/[^\p{L}\p{N}]+/u)
    .map((word) => (word === "st" ? "saint" : word))
    .filter((word) => word !== "" && !SMALL.test(word));
  return words.length < 2 ? "" : words.toSorted().join(" ");
}

/** "United Kingdom (UK)", "Germany [DE]": a code beside the name. */
const WITH_CODE = /^(.+?)\s*[([]\s*([A-Za-z]{2,3})\s*[)\]]$/;

/** "CH - Schweiz", "Suisse/Svizzera": a code or another name beside the name, which must agree. */
const BESIDE = /\s*[-–—/|:,(]\s*|\)$/;

/** "Bahamas (the)", "The Bahamas" */
const ARTICLE = /^the |(?:,\s*|\s*\()the\)?$/i;

/** What the official name of most countries begins with. */
const OFFICIAL =
  /^(?:kingdom of|republic of|state of(?! georgia)|königreich|republik|royaume (?:de|d['’])|république (?:de|d['’])) */i;

const codeOfName = (name: string): string | undefined =>
  spellingsOf(name)
    .map((spelling) => codes?.get(spelling))
    .find((code) => code !== undefined);

/** The one country that all parts of a text name. */
function codeOfAll(parts: readonly string[]): string | undefined {
  if (parts.length < 2) return undefined;
  const [code, ...others] = new Set(parts.map(toCountry));
  return others.length === 0 ? code : undefined;
}

/** The ISO code of a country from its number, which may as well be that of a CRM's own list. */
export const countryOfNumber = (text: string): string | undefined =>
  /^\d{1,3}$/.test(text) ? countries.numericToAlpha2(text.padStart(3, "0")) : undefined;

/** The ISO code of a country, from a code of letters or its name in seven languages. */
export function toCountry(text: string): string | undefined {
  const trimmed = text.trim();
  const upper = trimmed.toUpperCase();
  if (upper.length === 2 && isCountryCode(upper)) return upper;
  codes ??= codesByName();
  const whole = codeOfName(trimmed);
  const [, name, beside] = WITH_CODE.exec(trimmed) ?? [];
  if (whole === undefined && name !== undefined && beside !== undefined) {
    const code = toCountry(beside);
    const named = toCountry(name);
    if (code !== undefined) return named === undefined || named === code ? code : undefined;
  }
  const code =
    whole ??
    codeOfName(trimmed.replace(ARTICLE, "")) ??
    codeOfName(trimmed.replace(OFFICIAL, "")) ??
    codeOfAll(trimmed.split(BESIDE).filter((part) => part !== "")) ??
    (/^[A-Z]{3}$/.test(upper) ? countries.alpha3ToAlpha2(upper) : undefined);
  return code !== undefined && isCountryCode(code) ? code : undefined;
}
