import type { Problem } from "./problem.ts";

/** What a mapping makes of one record of an event. */
export type Mapped =
  | {
      readonly kind: "mapped";
      readonly crmCode: string;
      /** Absent when the event brought no record. */
      readonly candidate: Readonly<Record<string, unknown>> | undefined;
    }
  /** The mapping says that the service does not need this record. */
  | { readonly kind: "ignored" }
  | {
      readonly kind: "unmappable";
      readonly crmCode: string | undefined;
      readonly problems: readonly Problem[];
    };
