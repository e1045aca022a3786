import { InvalidArgumentError, Option } from "commander";
import { nearest } from "../mapping/nearest.ts";

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
