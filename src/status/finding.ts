/** One sentence about what stops or delays changes, or needs a person. */
export interface Finding {
  /** `stopped`: no change is sent. `critical`: many changes do not arrive. */
  readonly severity: "stopped" | "critical" | "warning";
  readonly says: string;
  readonly runbook: string;
  /** Tells findings of one section apart, where there may be several at once: a source, a webhook, a CRM. */
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

export const warning = (section: string, says: string, about?: string): Finding =>
  finding("warning", section, says, about);
