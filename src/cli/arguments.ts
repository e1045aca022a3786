import { InvalidArgumentError, Option } from "commander";
import { nearest } from "../intake/mapping/compare-texts.ts";
import { UserError } from "../base/user-error.ts";
import type { Similar } from "../core/state/record-names.ts";

/** More values than this are listed only when a wrong one was given. */
const MAX_IN_HELP = 15;

/** An option with a closed set of values: any other value is wrong usage. */
export class Choice extends Option {
  readonly values: readonly string[];

  constructor(flags: string, description: string, values: readonly string[], byDefault?: string) {
    super(flags, description);
    this.values = values;
    if (values.length <= MAX_IN_HELP) this.choices(values);
    this.argParser(oneOf(values)).default(byDefault);
  }
}

/** Rejects a value that is not in the set: lists the known ones, and suggests the nearest. */
export function oneOf<T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const known = values.find((value) => value === text);
    if (known !== undefined) return known;
    const near = nearest(text, values);
    const meant = near === undefined ? "" : `; did you mean ${near}?`;
    throw new InvalidArgumentError(`It must be one of ${values.join(", ")}${meant}`);
  };
}

/** Rejects a command that selects nothing, or selects in two ways. @param filters the options that select, but --all. */
export function requireSelection(
  names: readonly string[],
  isFiltered: boolean,
  what: string,
  filters: string,
): void {
  if (names.length === 0 && !isFiltered) {
    throw new WrongUsage(`select ${what}: by their names, ${filters}, or --all`);
  }
  if (names.length > 0 && isFiltered) {
    throw new WrongUsage("select by names, or by --all and filters, not both");
  }
}

/** Arguments or options that make no sense together: exit code 2. */
export class WrongUsage extends UserError {}

/** Parses the value of an option that is a whole number from `min` to `max`. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** Checks a record's name given as an argument: a script's unset variable would be an empty one. */
export function recordName(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("It must not be empty.");
  return text;
}

/** As `recordName`, for an argument that can be repeated. */
export const recordNames = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  recordName(text),
];

/** What may be meant by a name that nothing has; "": nothing is like it. */
export function similarText({ more, records }: Similar): string {
  const names = records.map(({ crmCode, subject }) =>
    subject === undefined || crmCode === undefined
      ? (subject ?? crmCode ?? "")
      : `${subject} (crmCode ${crmCode})`,
  );
  const asks = names.length === 0 ? "" : `; do you mean ${names.join(", ")}?`;
  return asks + (more === "" ? "" : `; ${more}`);
}
