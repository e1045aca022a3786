/** How urgent a change is: `live` goes first, `bulk` (imports, backfills) takes what is left. */
export const LANES = ["live", "bulk"] as const;

export type Lane = (typeof LANES)[number];
