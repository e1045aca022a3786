/** How a change can end, and what can stop all changes. Closed sets: they are labels of metrics. */

/** How one run of a record ended (sync-relation.ts). */
export type Outcome =
  | "created"
  | "updated"
  | "skipped"
  | "rejected"
  | "held"
  | "throttled"
  | "unavailable"
  | "denied";

/** How a change ended for good, as it is counted. `skipped` is split by its reason. */
export const CHANGE_OUTCOMES = [
  "created",
  "updated",
  "unchanged",
  "nothing_to_terminate",
  "coalesced",
  "superseded",
  "duplicate",
  "rejected",
  "ignored",
  "cancelled",
] as const;
export type ChangeOutcome = (typeof CHANGE_OUTCOMES)[number];

/** The two ways in which the service denies access: 401 is about the token, 403 about our address. */
export const DENIAL_CAUSES = ["token", "address"] as const;
export type DenialCause = (typeof DENIAL_CAUSES)[number];

/** Pauses of all sending that a reply of the service causes. */
export const PAUSE_REASONS = [
  "throttled",
  "token_denied",
  "address_denied",
  "unavailable",
] as const;
