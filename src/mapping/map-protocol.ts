/** Messages between the daemon and the thread in which mappings run. */
import { FIELD_NAMES } from "./fields.ts";
import type { CrmRecord, EventContext, MapOptions, MappingResult } from "./mapping.ts";

export interface MapWorkerData {
  readonly file: string;
  /** Shared memory: the thread writes the index in WATCHED of the expression it evaluates. */
  readonly watched: Int32Array;
}

/** The expressions that may not end, by name: a rule's `when`, `crmCode` and fields. */
export const WATCHED: readonly string[] = ["", "when", "crmCode", ...FIELD_NAMES];

export interface MapRequest {
  readonly event: EventContext;
  readonly record: CrmRecord | undefined;
  readonly options: MapOptions;
}

export type MapWorkerMessage =
  | {
      readonly kind: "ready";
      readonly objects: readonly string[];
      readonly reads: readonly string[];
    }
  | { readonly kind: "unusable"; readonly problems: readonly string[] }
  | { readonly kind: "result"; readonly result: MappingResult }
  | { readonly kind: "defect"; readonly stack: string };
