import type { CompareOptions } from "../../reconcile/compare-snapshot.ts";
import type { Reading } from "../../snapshot/item.ts";
import type { Encoding } from "../../snapshot/scan-file.ts";

/** The options of `crmsync reconcile`, as commander parses them. */
export interface ReconcileOptions
  extends
    Omit<CompareOptions, "isUnseen" | "kind" | "snapshotPath" | "source">,
    Omit<Reading, "mustBeWhole"> {
  readonly from?: string;
  readonly mapping?: string;
  readonly apply?: string | true;
  readonly yes?: true;
  readonly why?: string;
  readonly encoding?: Encoding;
  readonly whole?: true;
  readonly list?: true;
  readonly forget?: string;
  readonly json?: true;
}
