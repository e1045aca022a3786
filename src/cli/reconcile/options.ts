import type { Encoding } from "../../snapshot/scan-file.ts";

/** The options of `crmsync reconcile`, as commander parses them. */
export interface ReconcileOptions {
  readonly from?: string;
  readonly mapping?: string;
  readonly object?: string;
  readonly idFrom?: string;
  readonly asOf?: number;
  readonly plan?: string;
  readonly apply?: string | true;
  readonly yes?: true;
  readonly why?: string;
  readonly maxAge: number;
  readonly terminateMissing?: true;
  readonly maxTerminate?: number;
  readonly firstLoad?: true;
  readonly accept?: readonly string[];
  readonly encoding?: Encoding;
  readonly whole?: true;
  readonly report?: string;
  readonly showValues?: true;
  readonly list?: true;
  readonly forget?: string;
  readonly json?: true;
}
