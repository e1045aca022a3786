import { InvalidArgumentError } from "commander";

/** Checks the argument of a record's name: a script's unset variable must not name nothing. */
export function recordName(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("It must not be empty.");
  return text;
}

/** As `recordName`, for an argument that can be repeated. */
export const recordNames = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  recordName(text),
];
