/** The status that the relation must have: the payload's own (`mapped`), or one that an event forces. */
export type WantedStatus = "mapped" | "terminated" | "active";
