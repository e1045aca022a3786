/** What a finding does to changes, worst first: findings are shown in this order. */
export const EFFECTS = [
  "nothing_accepted",
  "nothing_sent",
  "some_held",
  "some_missing",
  "figures",
] as const;
export type Effect = (typeof EFFECTS)[number];

/** Sections whose finding keeps events out, while it is more than a warning. */
const KEEPS_OUT: ReadonlySet<string> = new Set([
  "crmsyncdown",
  "crmsyncredisaway",
  "crmsyncredisnearlyfull",
  "crmsyncredisrejectswrites",
  "crmsyncrolemissing",
]);

/** Sections of warnings about changes; all others are about figures, extra requests or what may come. */
const EFFECT_OF: ReadonlyMap<string, Effect> = new Map(
  Object.entries({
    nothing_sent: "sending-is-off",
    some_held: `a-plan-was-interrupted an-act-waits-for-approval crmsyncbulkpaused crmsyncfieldsemptied
      crmsyncheldterminations crmsyncqueuepaused the-mapping-waits-for-approval`,
    some_missing: `changes-are-dated-before-2000 crmsyncchangeslost crmsyncchangesrejected crmsyncchangestuck
      crmsyncdeadletters crmsyncdeadlettersexpiring crmsyncpulloverdue crmsyncrecordsnotfetched
      crmsyncsendererrors crmsyncsourcesilent one-record-is-missing the-crm-has-none-of-the-records
      the-state-key the-value-lists-are-not-known values-were-left-out`,
  }).flatMap(([effect, sections]) =>
    sections.split(/\s+/).map((section): [string, Effect] => [section, effect as Effect]),
  ),
);

function effectOf(severity: Finding["severity"], section: string): Effect {
  if (severity !== "warning" && KEEPS_OUT.has(section)) return "nothing_accepted";
  return severity === "stopped" ? "nothing_sent" : (EFFECT_OF.get(section) ?? "figures");
}

const SEVERITIES: readonly Finding["severity"][] = ["stopped", "critical", "warning"];

/** By effect, then by severity. */
export const mostUrgentFirst = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted(
    (a, b) =>
      EFFECTS.indexOf(a.effect) - EFFECTS.indexOf(b.effect) ||
      SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity),
  );

/** One sentence about what stops or delays changes, or needs a person. */
export interface Finding {
  /** `stopped`: no change is sent. `critical`: many changes do not arrive. */
  readonly severity: "stopped" | "critical" | "warning";
  readonly effect: Effect;
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
  effect: effectOf(severity, section),
  says,
  runbook: `docs/runbook.md#${section}`,
  ...(about !== undefined && { about }),
});

export const warning = (section: string, says: string, about?: string): Finding =>
  finding("warning", section, says, about);
