import { variantOf, type Variant } from "../service-spec/business-relation.ts";
import type { FingerprintOf } from "./fingerprint.ts";

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
  /** Set when the event of the watermark brought no record. */
  readonly earlierFields?: EarlierFields | undefined;
  /** When it was last proven, ms. */
  readonly provedAt: number;
}

/** What is newest when status and fields come from two events: the newest one brought no record. */
export interface EarlierFields {
  /** Order of the newest event that brought a record; "" when none did. */
  readonly order: string;
  /** The status that the newest event demands. */
  readonly status: "terminated" | "active";
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

/** The ledger's row for a body that the service holds. */
export function rowOf(
  body: Readonly<Record<string, unknown>>,
  now: number,
  fingerprintOf: FingerprintOf,
): LedgerRow {
  return {
    exists: true,
    uncertain: false,
    fingerprint: fingerprintOf(body),
    terminated: body["relationStatus"] === "terminated",
    variant: variantOf(body["type"]),
    watermark: "",
    provedAt: now,
  };
}
