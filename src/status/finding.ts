/** One sentence about what stops or delays changes, or needs a person. */
export interface Finding {
  /** `stopped`: no change is sent. `critical`: many changes do not arrive. */
  readonly severity: "stopped" | "critical" | "warning";
  readonly says: string;
  readonly runbook: string;
  /** What it is about, where there may be several of its section at once: a source. */
  readonly about?: string;
}

/** @param section of docs/runbook.md. */
export const finding = (
  severity: Finding["severity"],
  section: string,
  says: string,
  about?: string,
): Finding => ({
  severity,
  says,
  runbook: `docs/runbook.md#${section}`,
  ...(about !== undefined && { about }),
});
