import type { LedgerRow } from "./ledger-row.ts";

/** The orders of a state. */
export interface StateOrder {
  readonly order: string;
  /** Order of the newest event that brought fields; "" when none did. */
  readonly fieldsOrder: string;
}

/**
 * Whether a state would be superseded by what was settled, or by what waits. Staging decides the same
 * (src/state/lua/stage.lua).
 */
export function isSuperseded(
  { order, fieldsOrder }: StateOrder,
  row: Pick<LedgerRow, "watermark" | "earlierFields">,
  waiting: StateOrder | undefined,
): boolean {
  if (fieldsOrder === "") return order < row.watermark || order < (waiting?.order ?? "");
  return (
    fieldsOrder < (row.earlierFields?.order ?? row.watermark) ||
    fieldsOrder < (waiting?.fieldsOrder ?? "")
  );
}
