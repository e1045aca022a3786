/** What the audit trail says of a change at the service. A PUT carries all fields, also those that stay as they are. */
import type { Sendable } from "./decide.ts";
import type { TakenState } from "./run.ts";
import type { Settled } from "./settled.ts";

export interface AuditedChange {
  /** `uncertain`: given up, and a request without an answer may have been applied. */
  readonly outcome: "created" | "updated" | "terminated" | "uncertain";
  readonly fieldsSent: readonly string[];
  /** Of an update: those that differ from what the service was last proven to have; absent: not known. */
  readonly fieldsChanged?: readonly string[];
  /** Those of them that have no value any more; absent: none. */
  readonly fieldsEmptied?: readonly string[];
}

/** Undefined while the change is not finished, and for one that has changed nothing. */
export function auditedChange(
  sent: Sendable,
  { dead, end, settlement }: Settled,
  { row }: { readonly row: Pick<TakenState["row"], "openUntil"> },
): AuditedChange | undefined {
  const body = sent.kind === "fetch" ? sent.into : sent.body;
  if (body === undefined || !settlement.finished) return undefined;
  const fieldsSent = Object.keys(body).sort();
  if (end.outcome === "created") return { outcome: "created", fieldsSent };
  if (end.outcome === "updated") {
    const isEnded = body["relationStatus"] === "terminated";
    const { changed, emptied = [] } = end.change ?? {};
    return {
      outcome: isEnded ? "terminated" : "updated",
      fieldsSent,
      ...(changed && { fieldsChanged: changed }),
      ...(emptied.length > 0 && { fieldsEmptied: emptied }),
    };
  }
  const isOpen = settlement.openMs !== undefined || row.openUntil !== undefined;
  const mayBeApplied = settlement.row === "unknown" || isOpen;
  return dead !== undefined && mayBeApplied ? { outcome: "uncertain", fieldsSent } : undefined;
}
