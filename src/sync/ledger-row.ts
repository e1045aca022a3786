import type { Variant } from "../service-spec/business-relation.ts";

/** One row of the ledger: what was last proven of one crmCode on the service. */
export interface LedgerRow {
  /** Undefined while it is not known whether the service has the relation. */
  readonly exists: boolean | undefined;
  /**
   * True while a request is under way, and after one that ended ambiguously: the service then has
   * either what the rest of this row says or what that request carried.
   */
  readonly uncertain: boolean;
  readonly fingerprint: string | undefined;
  readonly terminated: boolean;
  readonly variant: Variant | undefined;
  /** Newest event order that was settled; "" when none was. */
  readonly watermark: string;
  /** When it was last proven, ms. */
  readonly provedAt: number;
}

/**
 * The row of a relation of which nothing was ever proven.
 * @param warm whether the service was listed: a relation without a row is then not on the service.
 */
export const rowWithoutProof = (warm: boolean): LedgerRow => ({
  exists: warm ? false : undefined,
  uncertain: false,
  fingerprint: undefined,
  terminated: false,
  variant: undefined,
  watermark: "",
  provedAt: 0,
});
