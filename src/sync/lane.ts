/** How urgent a change is: `live` ones go first, `bulk` ones (imports, backfills) fill what is left. */
export const LANES = ["live", "bulk"] as const;

export type Lane = (typeof LANES)[number];
