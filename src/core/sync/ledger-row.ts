/** What is known of one relation beside a change that waits: what was proven, and which events were settled. */
import { variantOf, type Variant } from "../service-spec/business-relation.ts";
import { filledIn } from "./emptied.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { WantedStatus } from "./mapped.ts";

/**
 * The orders of the two registers of a record (event-order.ts). An event with a record sets both; an event
 * without one sets the status alone, so `status` is never older than `fields`. "": nothing has set it.
 */
export interface Orders {
  readonly fields: string;
  readonly status: string;
  /** What the status register says: `mapped` when the newest event brought a record. */
  readonly is: WantedStatus;
}

export const NO_ORDERS: Orders = { fields: "", status: "", is: "mapped" };

/** What the service was last proven to have under one crmCode. */
export interface LedgerRow {
  /** Undefined while it is not known whether the service has the relation. */
  readonly exists: boolean | undefined;
  /**
   * True while a request is under way, and after one that ended ambiguously: the service then has
   * either what the rest of this row says or what that request carried.
   */
  readonly uncertain: boolean;
  /**
   * A request may still take effect: no other one is sent before this time, ms, and what is proven then is read once
   * more (run.ts). Undefined: none may. It outlasts everything else that is forgotten of a record.
   */
  readonly openUntil?: number | undefined;
  /** What it says was proven by the answer to a write of ours, or by a read that has shown this write. */
  readonly written?: boolean | undefined;
  readonly fingerprint: string | undefined;
  /** Of the same body: the optional fields with a value, as letters (emptied.ts); undefined: not known. */
  readonly filled?: string | undefined;
  /** Of the same body: short hashes of its fields (marks.ts); undefined: not kept, or from before they were. */
  readonly marks?: string | undefined;
  /**
   * Fingerprint of what was settled where the record had fields that were not understood: without these, in which
   * the service has what it had.
   */
  readonly partial?: string;
  readonly terminated: boolean;
  readonly variant: Variant | undefined;
  /** That it does not exist was shown by a list, or by 404s about a relation that was there: weaker than another answer. */
  readonly byList?: boolean;
  /** What was settled of each register. */
  readonly orders: Orders;
  /** When it was last proven, ms; 0: never. */
  readonly provedAt: number;
  /** Names the record of the CRM that has written it (a hash), or says that there are several. Undefined: not known. */
  readonly writer?: string | undefined;
  /** When crmsync has created it, ms; undefined: it was there before, or no outcomes are sent (OUTCOME_WEBHOOK). */
  readonly since?: number | undefined;
  /** What was settled of the fields lacks a value; undefined: nothing. */
  readonly without?: Without | undefined;
  /** Written by staging a live change: when the record changed last, and its usual gap, ms (rank.ts). */
  readonly pace?: Pace | undefined;
}

/** Fields that were sent without a value because it could not be used, and the record of the CRM that has it. */
export interface Without {
  readonly fields: readonly string[];
  readonly source: string;
  readonly subject: string;
}

/** How often a record changes. `gapMs`: undefined until it has changed twice within an hour. */
export interface Pace {
  readonly changedAt: number;
  readonly gapMs: number | undefined;
}

/**
 * The row of a relation of which nothing was ever proven.
 * @param warm whether the service was listed: the list did not show the relation then.
 */
export const rowWithoutProof = (warm: boolean): LedgerRow => ({
  exists: warm ? false : undefined,
  uncertain: false,
  fingerprint: undefined,
  terminated: false,
  variant: undefined,
  ...(warm && { byList: true }),
  orders: NO_ORDERS,
  provedAt: 0,
});

/** The row for a body that the service holds. It settles no event. */
export const rowOf = (
  body: Readonly<Record<string, unknown>>,
  now: number,
  fingerprintOf: FingerprintOf,
): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint: fingerprintOf(body),
  filled: filledIn(body),
  marks: fingerprintOf.marksOf?.(body),
  terminated: body["relationStatus"] === "terminated",
  variant: variantOf(body["type"]),
  orders: NO_ORDERS,
  provedAt: now,
});
