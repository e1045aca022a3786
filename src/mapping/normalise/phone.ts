import { isSupportedCountry, parsePhoneNumberFromString } from "libphonenumber-js/max";

/**
 * A telephone number as E.164.
 * @param country of numbers that are written without their country's prefix.
 * @returns undefined when it is no number that exists; extensions have no place in E.164 either.
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
