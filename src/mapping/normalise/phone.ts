import { isSupportedCountry, parsePhoneNumberFromString } from "libphonenumber-js/max";

/**
 * A telephone number as E.164.
 * @param country for numbers without a country prefix.
 * @returns undefined when the number is not valid, or has an extension (E.164 has none).
 */
export function toE164(text: string, country: string | undefined): string | undefined {
  const known = country !== undefined && isSupportedCountry(country) ? country : undefined;
  const parsed = parsePhoneNumberFromString(
    text.replace(/^00(?=\d)/, "+"),
    known === undefined ? {} : { defaultCountry: known },
  );
  if (parsed === undefined || !parsed.isValid() || parsed.ext !== undefined) return undefined;
  return parsed.number;
}
