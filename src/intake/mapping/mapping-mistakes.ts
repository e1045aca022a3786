/** Messages for mistakes in the structure of a mapping file: what is wrong and what to do. */
import { type Mistake, type Path } from "./schema-parts.ts";
import type { YAMLError } from "yaml";
import type { z } from "zod";
import { fieldOfName } from "./common-names.ts";
import { keysAt } from "./mapping-file.ts";
import { nearest } from "./compare-texts.ts";

const QUOTES =
  'put the whole expression in single quotes if it begins with a quote or a sign, contains ": " or " #", or stands within { } and contains a bracket or a comma';

export const TAB_MISTAKE = "indent lines with spaces, not with tabs";
export const INDENT_MISTAKE = "all keys of one block must begin in the same column";
export const COLON_MISTAKE = `after a key come a colon and a space; ${QUOTES}`;

const YAML_FAULTS: Partial<Record<YAMLError["code"], string>> = {
  TAB_AS_INDENT: TAB_MISTAKE,
  BAD_INDENT: INDENT_MISTAKE,
  DUPLICATE_KEY: "this key occurs twice; keys must be unique",
  MULTIPLE_DOCS: "a mapping is one document: remove the line ---",
};

export function yamlMistake({ code, message }: YAMLError): string {
  if (message.startsWith("Flow")) return "a bracket ({ or [) is not closed";
  const known = YAML_FAULTS[code];
  if (known !== undefined) return known;
  const reason = message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? message;
  if (reason.startsWith("Implicit map keys")) {
    return COLON_MISTAKE;
  }
  if (reason.startsWith("Missing closing")) return "a quote is not closed";
  return `${QUOTES} (YAML: ${reason})`;
}

/** For a YAML alias (`*name`) that does not exist: the author probably meant an expression. */
export const aliasMistake = (name: string): string => `${QUOTES} (YAML: there is no &${name})`;

const WORDS: Readonly<Record<string, string>> = {
  object: "a block of keys",
  record: "a block of keys",
  array: "a list, such as [a, b]",
  string: "a text",
  boolean: "true or false",
};

export function mistakesOf(issue: z.core.$ZodIssue, base: Path = []): Mistake[] {
  const path = [...base, ...(issue.path as (string | number)[])];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({
        path: [...path, key],
        message: unknownKey(path, key),
        isUnknownKey: true,
      }));
    case "invalid_union": {
      // A field or a table may be written short or in full. If the author wrote it in full, report
      // the mistakes in it.
      const long = issue.errors.find((errors) =>
        errors.every(({ code, path }) => path.length > 0 || code === "too_small"),
      );
      const deepest =
        long ?? issue.errors.find((errors) => errors[0]?.code === "unrecognized_keys");
      if (deepest !== undefined) return deepest.flatMap((inner) => mistakesOf(inner, path));
      return [{ path, message: issue.message }];
    }
    case "invalid_value": {
      const values = issue.values.map(String);
      if (path.length === 1 && path[0] === "version") {
        return [{ path, message: "must be 1: write `version: 1`" }];
      }
      return [{ path, message: `must be one of ${values.join(", ")}` }];
    }
    case "invalid_type": {
      if (path.length === 0) {
        return [
          {
            path,
            message: "this is not a mapping: it must be a block with the keys version and objects",
          },
        ];
      }
      const isMissing = issue.input === undefined && issue.message.includes("undefined");
      const kind = WORDS[issue.expected] ?? `a ${issue.expected}`;
      return [{ path, message: isMissing ? "is missing" : `must be ${kind}` }];
    }
    case "too_small":
      return [{ path, message: "must not be empty" }];
    case "invalid_key":
      return issue.issues.map(({ message }) => ({ path, message }));
    case "too_big":
    case "invalid_format":
    case "not_multiple_of":
    case "invalid_element":
    case "custom":
      return [{ path, message: issue.message }];
  }
}

function unknownKey(parent: Path, key: string): string {
  const isField = parent.at(-1) === "fields";
  if (isField && key === "crmCode") return "belongs beside `fields`, not in it";
  const message = isField ? "the service has no field of this name" : "is not a known key here";
  const isOfWebhook = parent[0] === "webhooks" && parent.length === 2;
  const meant =
    (isOfWebhook ? MEANT_IN_WEBHOOK.get(key.toLowerCase()) : undefined) ?? meantKey(parent, key);
  if (meant !== undefined) return `${message}; did you mean ${meant}?`;
  return isField ? message : `${message}; the keys are ${keysAt(parent).join(", ")}`;
}

/** The key that the author of an unknown one probably meant. */
export const meantKey = (parent: Path, key: string): string | undefined =>
  (parent.at(-1) === "fields" ? fieldOfName(key) : undefined) ?? nearest(key, keysAt(parent));

/** What stands for a wrong key of a webhook while the rest is checked; others are removed. */
export const WEBHOOK_STAND_INS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["verify", "bearer"],
  ["object", { value: "?" }],
]);

/** Names that authors use for keys of a webhook, in lower case, and what they mean. */
const MEANT_IN_WEBHOOK: ReadonlyMap<string, string> = new Map(
  Object.entries({
    id: "recordId (the record's id) or eventId (the event's own id)",
    subject: "object and recordId",
    subjectid: "recordId",
    auth: "verify",
    secret: "verify: { by: …, secret: … }",
    token: "verify: { by: bearer, secret: … }",
    list: "events",
    items: "events",
    path: "events",
    type: "operation or object",
    action: "operation",
    model: "object",
    data: "record",
    timestamp: "time",
  }),
);
