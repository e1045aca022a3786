import type { Problem } from "../spec/problem.ts";

/** What a mapping may see of an event beside its record. */
export interface EventContext {
  readonly type: string;
  readonly source: string;
  readonly subject: string;
  readonly object: string;
  readonly recordId: string;
}

/** A field that was left out of the payload, although the record had something for it. */
export interface MappingWarning {
  readonly field: string;
  readonly reason: string;
}

export type MappingResult =
  | {
      readonly ok: true;
      readonly crmCode: string;
      /** Absent when there was no record to map. */
      readonly candidate: Readonly<Record<string, unknown>> | undefined;
      readonly warnings: readonly MappingWarning[];
    }
  | {
      readonly ok: false;
      readonly crmCode: string | undefined;
      readonly problems: readonly Problem[];
    };

/** Turns a CRM's record into a candidate payload and gives its crmCode. Pure. */
export interface Mapping {
  readonly name: string;
  map(context: EventContext, record: Readonly<Record<string, unknown>> | undefined): MappingResult;
}
