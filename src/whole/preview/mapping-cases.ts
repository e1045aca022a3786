/** The cases of a mapping: a record, an event or the body of a webhook, and what must become of it. */
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { problemsOf } from "../../core/event/problem.ts";
import { presetNames } from "../../intake/mapping/load-mapping.ts";
import { MappingError, WARNING_REASONS, type WarningReason } from "../../intake/mapping/mapping.ts";
import { parseYaml } from "../../intake/mapping/parse-yaml.ts";
import { lineOf, mappingText } from "../../intake/mapping/read-mapping-file.ts";
import { optional, text } from "../../intake/mapping/schema-parts.ts";
import { DEFAULT_TENANT_VALUES, type TenantField } from "../../core/service-spec/value-lists.ts";

const TENANT_FIELDS = Object.keys(DEFAULT_TENANT_VALUES) as [TenantField, ...TenantField[]];
const REASONS = Object.keys(WARNING_REASONS) as [WarningReason, ...WarningReason[]];

const fields = z.record(z.string(), z.unknown());

const input = z
  .strictObject({
    record: optional(fields, "A record, as the CRM's API returns or exports it."),
    object: optional(text, "The CRM's object of `record`."),
    id: optional(z.union([text, z.number()]), "The id of `record`, when it does not contain it."),
    event: optional(fields, "A CloudEvent; `specversion`, `id` and `source` may be left out."),
    body: optional(z.unknown(), "The body of a CRM's webhook, or with `webhook` of any tool's."),
    webhook: optional(
      text,
      "The webhook of the mapping that takes `body`: name, or name?parameter=value.",
    ),
    headers: optional(
      z.record(z.string(), z.string()),
      "The headers of the request, with `webhook`.",
    ),
  })
  .refine(
    (one) => [one.record, one.event, one.body].filter((given) => given !== undefined).length === 1,
    { error: "needs one of `record`, `event` and `body`" },
  )
  .describe("What comes from the CRM: `record`, `event` or `body`.");

const warning = z.strictObject({ field: text, reason: z.enum(REASONS), value: text.optional() });

const expectation = z.strictObject({
  result: optional(
    z.enum(["passes", "ignored", "to fetch", "dead letter", "refused"]),
    "As `crmsync preview` says it, or refused: a request or an event that is not accepted. By default passes, with `problems` a dead letter.",
  ),
  crmCode: optional(text, "The key at the service."),
  status: optional(
    z.enum(["mapped", "terminated", "active"]),
    "The status of the relation; mapped: the payload's own.",
  ),
  payload: optional(fields, "The whole payload: a field that is missing here must not be sent."),
  warnings: z.array(warning).default([]).describe("All warnings; by default there must be none."),
  problems: optional(
    z.array(z.strictObject({ field: z.string(), rule: text.optional() })),
    "Of a dead letter: all of its problems.",
  ),
});

const casesFile = z.strictObject({
  mapping: optional(
    text,
    "The mapping: a preset, or a file. By default NAME.yaml for NAME.test.yaml.",
  ),
  lists: optional(
    z.partialRecord(z.enum(TENANT_FIELDS), z.array(text)),
    "The tenant's value lists, by field; by default those of the specification.",
  ),
  cases: z
    .array(
      z.strictObject({
        name: text.describe("What the case shows."),
        input,
        expect: z
          .union([expectation, z.array(expectation)])
          .describe("What becomes of the record; a list if the input has several, or none."),
      }),
    )
    .min(1)
    .describe("Each is mapped by itself; nothing is sent."),
});

export type Expectation = z.output<typeof expectation>;
export type MappingCase = z.output<typeof casesFile>["cases"][number] & { readonly line: number };

export type MappingCases = ReturnType<typeof readCases>;

/** `mapping.test.yaml` beside `mapping.yaml`. */
export const casesFileOf = (mapping: string): string =>
  mapping.replace(/(?:\.[^./\\]+)?$/, ".test.yaml");

const CASES_FILE = /\.test\.ya?ml$/;

/**
 * @param name of a mapping file, which has its cases beside it, or of a file of cases.
 * @returns with the preset, or the file, of their mapping
 * @throws MappingError when the cases cannot be used.
 */
export function readCases(name: string) {
  const file = CASES_FILE.test(name) ? name : casesFileOf(name);
  if (file !== name && existsSync(name) && !existsSync(file)) {
    throw new MappingError(name, [`it has no cases: write them into ${file}`]);
  }
  const { document, faults, lines, value } = parseYaml(mappingText(file));
  const parsed = casesFile.safeParse(value);
  const mistakes =
    faults.length > 0
      ? faults.map(({ line, message }) => `${file}:${line}: ${message}`)
      : problemsOf(new z.ZodError((parsed.error?.issues ?? []).flatMap(meant)), value).map(
          ({ field, rule }) =>
            `${file}:${lineOf(document, lines, pathOf(field))}: ${field || "the file"} ${rule}`,
        );
  if (!parsed.success || mistakes.length > 0) throw new MappingError(file, mistakes);
  const { cases, lists = {}, mapping } = parsed.data;
  const isPreset = mapping !== undefined && presetNames().includes(mapping);
  const beside = (other: string) => (isPreset ? other : resolve(dirname(file), other));
  const own = file === name ? file.replace(CASES_FILE, ".yaml") : name;
  const placed = cases.map((one, index): MappingCase => {
    return { ...one, line: lineOf(document, lines, ["cases", index]) };
  });
  return { mapping: mapping === undefined ? own : beside(mapping), file, lists, cases: placed };
}

const pathOf = (field: string): (string | number)[] =>
  field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];

/** Of a value that may be written in two ways: the faults of the way that the author has chosen. */
function meant(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code !== "invalid_union") return [issue];
  const isOther = ({ code, path }: z.core.$ZodIssue) =>
    code === "invalid_type" && path.length === 0;
  const chosen = issue.errors.find((found) => !found.some(isOther)) ?? issue.errors[0] ?? [];
  return chosen.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
}

/** The text of a file of cases. @param head of its comments; it begins with the address of the schema */
export const casesText = (head: readonly string[], cases: readonly object[]): string =>
  [...head.map((line) => `# ${line}`.trimEnd()), stringify({ cases })].join("\n");

/** The content of mappings/mapping-test.schema.json. */
export const casesJsonSchema = (): Record<string, unknown> => ({
  ...z.toJSONSchema(casesFile, { io: "input" }),
  title: "crmsync mapping test",
  description: "Cases of a mapping: what comes from the CRM, and what must become of it.",
});
