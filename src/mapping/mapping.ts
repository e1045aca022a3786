import type { Problem } from "../sync/problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { CrmRecord, EventContext } from "./map-module.ts";

export type { CrmRecord, EventContext };

/** Why a value did not become part of the payload as it was, in words for whoever reads it. */
export const WARNING_REASONS = {
  expression_failed: "the expression failed on this record",
  not_understood: "the value could not be read in the form that the field has",
  not_in_table: "the table has no entry for the value",
  not_in_list: "the value is none of those that the service allows",
  not_in_tenant_list: "the value is none of those that the tenant has configured",
  too_many: "the tenant's list allows one value, and there were several",
  not_accepted: "the value breaks the service's rule for the field",
  unknown_field: "this kind of relation has no such field",
  kept_as_is: "not a number that exists in any numbering plan; sent as it was written",
} as const;
export type WarningReason = keyof typeof WARNING_REASONS;

/** A field of which something was left out of the payload, although the record had it. */
export interface MappingWarning {
  readonly field: string;
  readonly reason: WarningReason;
  /** The value itself, only for whoever asked to have it explained: it may be personal. */
  readonly value?: string;
}

export type MappingResult =
  | {
      readonly kind: "mapped";
      readonly crmCode: string;
      /** Absent when there was no record to map. */
      readonly candidate: Readonly<Record<string, unknown>> | undefined;
      readonly warnings: readonly MappingWarning[];
    }
  /** The mapping says that this record is none of the service's business. */
  | { readonly kind: "ignored" }
  | {
      readonly kind: "unmappable";
      readonly crmCode: string | undefined;
      readonly problems: readonly Problem[];
      readonly warnings: readonly MappingWarning[];
    };

export interface MapOptions {
  /** Warnings bring the values that they are about. */
  readonly explain?: boolean;
}

/** Turns a CRM's record into a candidate payload and gives its crmCode. */
export interface Mapping {
  readonly name: string;
  /** Objects of the CRM that the mapping has rules for, where it can tell. */
  readonly objects: readonly string[];
  /** Names of the record's fields that may be read, where the mapping can tell. */
  readonly reads: ReadonlySet<string>;
  /** @param lists of the tenant; a value that they do not allow is left out, with a warning. */
  map(
    context: EventContext,
    record: CrmRecord | undefined,
    lists: TenantLists,
    options?: MapOptions,
  ): Promise<MappingResult>;
  close(): Promise<void>;
}

/** A mapping that cannot be used; the message names every fault with its place and remedy. */
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
