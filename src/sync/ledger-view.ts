import type { Variant } from "../spec/business-relation.ts";

/** One row of the ledger: what was last proved of a crmCode on the service. */
export interface LedgerView {
  /** Undefined when nobody knows. */
  readonly exists: boolean | undefined;
  /** True while a request is under way, or after one that ended ambiguously. */
  readonly uncertain: boolean;
  readonly fingerprint: string | undefined;
  readonly terminated: boolean;
  readonly variant: Variant | undefined;
  /** Newest event order settled; "" when none was. */
  readonly watermark: string;
  /** When it was last proved, ms. */
  readonly provedAt: number;
}
