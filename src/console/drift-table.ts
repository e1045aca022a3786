/** A table of differences between the CRM and the service, a row for each kind. */
import { DRIFT, type DriftKind } from "../sync/drift.ts";
import type { Html } from "./html.ts";
import { table } from "./table.ts";

interface DriftTable {
  readonly caption: string;
  readonly kinds: readonly DriftKind[];
  /** Heading → number of each kind. */
  readonly columns: Readonly<Record<string, (kind: DriftKind) => number>>;
}

export const driftTable = ({ caption, columns, kinds }: DriftTable): Html =>
  table({
    caption,
    rows: kinds,
    columns: [
      { heading: "Kind", cell: (kind) => kind },
      { heading: "Meaning", cell: (kind) => DRIFT[kind] },
      ...Object.entries(columns).map(
        ([heading, cell]) => ({ heading, cell, isNumber: true }) as const,
      ),
    ],
  });
