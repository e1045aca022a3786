import { InvalidArgumentError } from "commander";

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
