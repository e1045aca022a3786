/** What is said between the daemon and the thread in which mappings run. */
import { FIELD_NAMES } from "./fields.ts";
import type { CrmRecord, EventContext, MapOptions, MappingResult } from "./mapping.ts";

export interface MapWorkerData {
  readonly file: string;
  /** Index into WATCHED of what is being evaluated. */
  readonly watched: Int32Array;
}

/** What a record can be stuck in. */
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
