import { hash } from "node:crypto";
import { crmsync } from "../../base/command.ts";
import type { GoneRule } from "./gone.ts";
import type { Keeps } from "../../core/sync/keeps.ts";
import type { Mapped, Relation } from "../../core/sync/mapped.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import type { FieldPath } from "./expression-tree.ts";
import type { CrmRecord, EventContext } from "./map-module.ts";
import type { IdRule } from "./record-ids.ts";
import type { PullSource } from "./pull-rule.ts";
import type { MappingWebhook } from "./webhooks/webhook.ts";
import type { WhenRule } from "./whens.ts";
import { kindOf } from "../../core/event/problem.ts";

export type { CrmRecord, EventContext };

/** Reasons of warnings, with the text that commands show. */
export const WARNING_REASONS = {
  expression_failed: "the expression failed on this record",
  not_understood: "the value cannot be converted to the form of the field",
  time_of_day:
    "the value is a point in time, and its date depends on the CRM's time zone: set `zone` for this field",
  implausible:
    "the date cannot be right: it is in the future, a birth before 1900, or a company from before 1800",
  not_in_table: "the table has no entry for the value",
  not_in_list: "the service does not allow this value",
  not_in_tenant_list: "the tenant's value list does not have this value",
  no_longer_listed:
    "the tenant's value list no longer has this item: what the service has in the field stays",
  too_many: "the tenant allows only one value, and there are several",
  not_accepted: "the value breaks the service's rule for the field",
  unknown_field: "this type of relation does not have the field",
  type_changed: `the CRM's field has another type than before: what the service has stays until you accept it (${crmsync`doctor --accept-types`})`,
  not_carried:
    "the record came without what this field is made of; the CRM may still have a value there",
  no_digits: "a telephone number without a digit",
  kept_as_is: "not a valid telephone number; sent unchanged",
  suspicious: "the text looks as if a program had written it; sent unchanged",
} as const;
export type WarningReason = keyof typeof WARNING_REASONS;

/** A value of the record that the mapping left out of the payload (or could not check). */
export interface MappingWarning {
  readonly field: string;
  readonly reason: WarningReason;
  /** The kind of value, for instance `a string of 3 characters`. */
  readonly kind: string;
  /** The value itself, only with MapOptions.explain: it may be personal data. */
  readonly value?: string;
}

interface WithWarnings {
  readonly warnings: readonly MappingWarning[];
}

export type MappingResult =
  | (Extract<Mapped, { kind: "mapped" | "unmappable" }> & WithWarnings)
  | Extract<Mapped, { kind: "ignored" }>;

export interface MapOptions {
  /** Include the values in warnings. */
  readonly explain?: boolean;
  /** By object, in lower case: fields of the service that are made of a field whose type has changed. */
  readonly changed?: Readonly<Record<string, readonly string[]>>;
}

/** Of what a field of the service is made, or `crmCode` or `when`. */
export interface FieldSources {
  readonly field: string;
  /** Objects of the CRM in lower case; empty: records that have the service's own fields. */
  readonly objects: readonly string[];
  /** What each of its expressions reads of the record: `from`, then `fallback`. */
  readonly sources: readonly (readonly FieldPath[])[];
}

/** What a mapping says of itself. */
export interface MappingAbout {
  /** Objects of the CRM that the mapping has rules for; empty when it does not know. */
  readonly objects: readonly string[];
  /** Names of the record's fields that it may read; empty when it does not know. */
  readonly reads: ReadonlySet<string>;
  /** Absent when it does not know. */
  readonly sources?: readonly FieldSources[];
  /** How its records say that they are deleted, beside the names that every record may use; absent: nothing more. */
  readonly gone?: readonly GoneRule[];
  /** Ids that it allows instead of ordinary ones; absent: none. */
  readonly ids?: readonly IdRule[];
  /** Object, in lower case → the address of its records in the CRM (`link` of the mapping file); absent: none. */
  readonly links?: ReadonlyMap<string, string>;
  /** What is read together with its records; absent: nothing. */
  readonly relations?: readonly Relation[];
  /** Fields that others maintain at the service. */
  readonly keeps: Keeps;
  /** The `when` of each rule that has one, in the order of the file. */
  readonly whens: readonly WhenRule[];
  /** REST APIs that are asked for changes, by the section `pull` of a mapping file. */
  readonly pulls?: readonly PullSource[];
}

/** Makes a candidate and its crmCode from a record of the CRM. */
export interface Mapping extends MappingAbout {
  readonly name: string;
  /** `sha256:<hex>` of the file by which all its threads map; absent: a module, of which a file is only a part. */
  readonly hash?: string | undefined;
  /** Webhooks that any tool may post to, by the section `webhooks` of a mapping file. */
  readonly webhooks: readonly MappingWebhook[];
  /** @param lists the tenant's; a value that they do not allow is left out, with a warning. */
  map(
    context: EventContext,
    record: CrmRecord | undefined,
    lists: TenantLists,
    options?: MapOptions,
  ): Promise<MappingResult>;
  close(): Promise<void>;
}

/** Of a mapping file, as the audit trail and the certificate name it. */
export const hashOfText = (text: string): string => `sha256:${hash("sha256", text)}`;

/** A mapping that cannot be used. The message names every problem, its place and what to do. */
export class MappingError extends Error {
  readonly problems: readonly string[];

  constructor(name: string, problems: readonly string[]) {
    super(
      `the mapping ${name} has ${problems.length === 1 ? "a problem" : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join("\n")}`,
    );
    this.name = "MappingError";
    this.problems = problems;
  }
}

/** Where the value is none of the record: the error's text, the names of fields. */
const KINDS: Partial<Record<WarningReason, (value: unknown) => string>> = {
  expression_failed: () => "the record",
  not_carried: (names) => `a record without ${String(names)}`,
};

/** The one constructor of warnings. The value itself is included only to explain. */
export function warningOf(
  field: string,
  reason: WarningReason,
  value: unknown,
  options: MapOptions,
): MappingWarning {
  const kind = KINDS[reason]?.(value) ?? kindOf(value);
  const explained = options.explain === true && value !== undefined;
  return {
    field,
    reason,
    kind,
    ...(explained && { value: textOf(value) }),
  };
}

/** A value as people read it. What a module returns need not be JSON. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? kindOf(value);
  } catch {
    return kindOf(value);
  }
}
