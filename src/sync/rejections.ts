import type { Problem } from "../event/problem.ts";

/** The problems of changes that decide() rejects before a request is spent. */
export const REJECTIONS: Record<"variant_changed" | "nothing_to_restore", readonly Problem[]> = {
  variant_changed: [
    {
      field: "type",
      rule: "must stay a person or stay a company, as the service has it under this crmCode",
      kind: "the other kind",
    },
  ],
  nothing_to_restore: [
    {
      field: "data.record",
      rule: "is required: the service has no relation under this crmCode to restore",
      kind: "nothing",
    },
  ],
};
