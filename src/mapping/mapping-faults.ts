/** What is wrong with the form of a mapping file, in words that say what to do. */
import type { YAMLError } from "yaml";
import type { z } from "zod";
import { FIELD_NAMES } from "./fields.ts";
import { KEYS } from "./mapping-file.ts";
import { nearest } from "./nearest.ts";
import type { Fault, Path } from "./read-mapping-file.ts";

const QUOTES =
  'an expression must be put in single quotes as a whole where it begins with a quote or a sign, has ": " or " #" in it, or stands within { } and has a bracket or a comma';

const YAML_FAULTS: Partial<Record<YAMLError["code"], string>> = {
  TAB_AS_INDENT: "lines are indented with blanks, not with tabs",
  BAD_INDENT: "the keys of one block must begin in the same column",
  DUPLICATE_KEY: "Map keys must be unique: this one stands twice",
  MULTIPLE_DOCS: "a mapping is one document: remove the line ---",
};

export function yamlFault({ code, message }: YAMLError): string {
  if (message.startsWith("Flow")) return "a bracket that was opened, { or [, is not closed";
  const known = YAML_FAULTS[code];
  if (known !== undefined) return known;
  const says = message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? message;
  if (says.startsWith("Implicit map keys")) {
    return `a key is followed by a colon and a blank; ${QUOTES}`;
  }
  if (says.startsWith("Missing closing")) return "a quote that was opened is not closed";
  return `${QUOTES} (YAML: ${says})`;
}

/** `*name` refers to what `&name` marked; whoever wrote one by chance meant an expression. */
export const aliasFault = (error: Error): string => `${QUOTES} (YAML: ${error.message})`;

/** Names that others have for the service's fields. */
const MEANT: Readonly<Record<string, string>> = {
  dateofbirth: "birthDate",
  birthday: "birthDate",
  dob: "birthDate",
  birthplace: "placeOfBirth",
  phone: "phoneNumber",
  mobile: "phoneNumber",
  telephone: "phoneNumber",
  mail: "email",
  street: "address",
  zip: "postalCode",
  zipcode: "postalCode",
  postcode: "postalCode",
  town: "city",
  country: "countryOfResidence",
  citizenship: "nationality",
  surname: "lastName",
  familyname: "lastName",
  givenname: "firstName",
  vat: "vatNumber",
  taxid: "taxIdentificationNumber",
  tin: "taxIdentificationNumber",
  industry: "industrySector",
  founded: "incorporationDate",
  stage: "relationshipStatus",
  status: "relationStatus",
};

const WORDS: Readonly<Record<string, string>> = {
  object: "a block of keys",
  record: "a block of keys",
  array: "a list, such as [a, b]",
  string: "a text",
  boolean: "true or false",
};

export function faultsOf(issue: z.core.$ZodIssue, base: Path = []): Fault[] {
  const path = [...base, ...(issue.path as (string | number)[])];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({ path: [...path, key], says: unknownKey(path, key) }));
    case "invalid_union": {
      // A field or a table may be short or long: what was begun as long is told as long.
      const long = issue.errors.find((errors) => errors.every(({ path }) => path.length > 0));
      const deepest =
        long ?? issue.errors.find((errors) => errors[0]?.code === "unrecognized_keys");
      if (deepest !== undefined) return deepest.flatMap((inner) => faultsOf(inner, path));
      return [{ path, says: wanted(path) }];
    }
    case "invalid_value": {
      const values = issue.values.map(String);
      if (path.length === 1 && path[0] === "version") {
        return [{ path, says: "must be there, and be 1: `version: 1`" }];
      }
      return [{ path, says: `must be one of ${values.join(", ")}` }];
    }
    case "invalid_type": {
      if (path.length === 0) {
        return [
          { path, says: "it is no mapping: it must be a block of keys, version and objects" },
        ];
      }
      const isMissing = issue.input === undefined && issue.message.includes("undefined");
      const kind = WORDS[issue.expected] ?? `a ${issue.expected}`;
      return [{ path, says: isMissing ? "is missing" : `must be ${kind}` }];
    }
    case "too_small":
      return [{ path, says: "must not be empty" }];
    case "too_big":
    case "invalid_format":
    case "not_multiple_of":
    case "invalid_key":
    case "invalid_element":
    case "custom":
      return [{ path, says: issue.message }];
  }
}

/** What can stand at a place where several kinds of things can. */
function wanted(path: Path): string {
  const last = path.at(-1);
  if (path.length === 3 && last === "object") {
    return "must be the CRM's name of the object, or a list of names";
  }
  if (last === "table") return "must be the name of a table, or a block of lines `from: to`";
  if (path.includes("table") || path[0] === "tables") {
    return "must be a text, true or false, or null; a number stands in quotes";
  }
  if (last === "value" || last === "default") return "must be a text, a number, true or false";
  return "must be an expression, or a block with `from` or `value` (a constant: { value: … })";
}

function unknownKey(parent: Path, key: string): string {
  if (parent.at(-1) === "fields") {
    if (key === "crmCode") return "stands beside `fields`, not in it";
    const meant = MEANT[key.toLowerCase().replaceAll(/[^a-z]/g, "")] ?? nearest(key, FIELD_NAMES);
    const says = "the service has no field of this name";
    return meant === undefined ? says : `${says}; did you mean ${meant}?`;
  }
  const keys = parent.length === 0 ? KEYS.top : parent.includes("fields") ? KEYS.field : KEYS.rule;
  const near = nearest(key, keys);
  return near === undefined
    ? `is not known here; there are ${keys.join(", ")}`
    : `is not known here; did you mean ${near}?`;
}
