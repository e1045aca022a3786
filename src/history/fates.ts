/** The closed set of fates. */
export const FATES = [
  "on_service",
  "unchanged",
  "superseded",
  "terminated",
  "waits_for_quota",
  "waits_for_retry",
  "stopped",
  "paused",
  "sending",
  "held",
  "rejected",
  "ignored",
  "fetching",
  "not_on_service",
  "uncertain",
  "unknown",
] as const;
export type Fate = (typeof FATES)[number];

export interface FateOfRecord {
  readonly fate: Fate;
  /** Half a sentence: the name of the record stands before it. */
  readonly answer: string;
  readonly remedy?: string | undefined;
  /** Section of docs/runbook.md. */
  readonly runbook?: string | undefined;
}
