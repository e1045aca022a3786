import type { z } from "zod";
import { characters } from "../service-spec/characters.ts";

/**
 * One fault of an event or a candidate: where, which rule, and which kind of value was found. Never
 * the value itself: it may be personal data.
 */
export interface Problem {
  /** Path of the field, for instance `wealthSource[1]`; "" for the whole. */
  readonly field: string;
  /** What the value must be, for instance `must be one of active, terminated`. */
  readonly rule: string;
  /** The kind of value found, for instance `a string of 3 characters`. */
  readonly kind: string;
}

/** Names the kind of a value without the value. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string") {
    return value === "" ? "an empty string" : `a string of ${characters(value)} characters`;
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Whether a value is a JSON object, and no list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A path as people write it: `wealthSource[1]`. */
export const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === "number"
        ? `${text}[${key}]`
        : text === ""
          ? String(key)
          : `${text}.${String(key)}`,
    "",
  );

/** The value at a path; undefined where there is none. */
export const valueAt = (root: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined,
    root,
  );

function ruleText(issue: z.core.$ZodIssue, value: unknown): string {
  if (value === undefined && issue.code !== "custom") return "is required";
  switch (issue.code) {
    case "invalid_type": {
      // JSON knows no records.
      const expected = issue.expected === "record" ? "object" : issue.expected;
      return `must be ${/^[aeiou]/.test(expected) ? "an" : "a"} ${expected}`;
    }
    case "invalid_value":
      return `must be one of ${issue.values.map(String).join(", ")}`;
    case "too_small":
      return "must not be empty";
    case "too_big":
      return `must have at most ${String(issue.maximum)} characters or items`;
    case "unrecognized_keys":
      return "is not a field of this type";
    case "invalid_format":
    case "not_multiple_of":
    case "invalid_union":
    case "invalid_key":
    case "invalid_element":
    case "custom":
      return issue.message;
  }
}

/** At most this many problems of one value, or of one request, are listed: more would hide the first. */
export const MAX_PROBLEMS = 50;

/** Turns zod's issues about `root` into problems that may be logged and shown. */
export function problemsOf(error: z.ZodError, root: unknown): Problem[] {
  return error.issues.slice(0, MAX_PROBLEMS).flatMap((issue) => {
    const paths =
      issue.code === "unrecognized_keys"
        ? issue.keys.map((key) => [...issue.path, key])
        : [issue.path];
    return paths.map((path) => {
      const value = valueAt(root, path);
      return { field: pathText(path), rule: ruleText(issue, value), kind: kindOf(value) };
    });
  });
}
