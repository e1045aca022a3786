/** Tells in words what was asked, and what became of it. No crmCodes. Pure. */
import { counted } from "../../base/counted.ts";
import type { Approval, Asked, AskedMapping } from "../../core/state/approvals.ts";
import { clockTime } from "./clock-time.ts";

/** "release 3 held changes" */
export function askedText({
  act,
  count,
  mapping,
  plan,
  what = "release",
}: Asked & { count: number }): string {
  switch (act) {
    case "held":
      return `${what} ${counted(count, "held change")}`;
    case "drop":
      return `drop ${counted(count, "dead letter")}`;
    case "forget":
      return `erase a person (${counted(count, "relation")})`;
    case "plan":
      return `carry out the plan ${plan?.id ?? ""}: ${planText(plan)}`;
    case "mapping":
      return `use the mapping ${mapping === undefined ? "" : namedMapping(mapping)}`;
  }
}

/** "new.yaml (1a2b3c4d)", as the status names it. */
export const namedMapping = ({
  hash = "",
  name,
}: {
  readonly name: string;
  readonly hash?: string | undefined;
}): string => `${name}${hash === "" ? "" : ` (${hash.replace("sha256:", "").slice(0, 8)})`}`;

/** Rules that are named; `crmsync approvals list --json` has all. */
const MOST_RULES = 10;

/** "compared with old.yaml (5e6f7a8b), the approved one: rules contact.city differ; 1 of 3 records differ" */
export function besideText({ beside }: AskedMapping): string {
  if (beside === undefined) return "it was compared with no other mapping";
  const { differ, isApproved, records, rules = [] } = beside;
  const whose = isApproved ? "the approved one" : "which is not the approved one";
  const more = rules.length > MOST_RULES ? `, and ${rules.length - MOST_RULES} more` : "";
  const seen = [
    ...(rules.length === 0 ? [] : [`rules ${rules.slice(0, MOST_RULES).join(", ")}${more} differ`]),
    records === 0
      ? "no record was mapped with both"
      : `${differ} of ${counted(records, "record")} differ`,
  ];
  return `compared with ${namedMapping(beside)}, ${whose}: ${seen.join("; ")}`;
}

/** "3 terminations (more relations … than TERMINATE_LIMIT allows; from /crm/acme; since 2026-11-29T01:02:03Z)" */
export const aboutText = ({
  about,
  gone = 0,
  mapping,
}: Pick<Approval, "about" | "gone" | "mapping">): string =>
  about
    .map(({ count, fields, kind, since, sources, why }) => {
      const parts = [
        why,
        Object.keys(fields).length > 0 && `fields ${countsText(fields)}`,
        Object.keys(sources).length > 0 && `from ${countsText(sources)}`,
        since !== undefined && `since ${clockTime(since)}`,
      ].filter((part) => part);
      return `${counted(count, kind)} (${parts.join("; ")})`;
    })
    .concat(gone > 0 ? goneText(gone) : [], mapping === undefined ? [] : besideText(mapping))
    .join(", ");

export const goneText = (gone: number): string =>
  `${gone} more that were asked for were decided, or replaced by newer events, since`;

/** "email 3, city 1"; "" is the record as a whole. */
export const countsText = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${name || "the whole"} ${count}`)
    .join(", ");

/** "3 creations, 2 updates and 1 termination" */
export const planText = ({ creates = 0, terminations = 0, updates = 0 } = {}): string =>
  `${counted(creates, "creation")}, ${counted(updates, "update")} and ${counted(terminations, "termination")}`;

/** "was approved by ben: 3 held changes released" */
export function endText({ decider, expiresAt, says = "", state }: Approval): string {
  const by = decider === undefined ? "" : ` by ${decider.by}`;
  const more = says === "" ? "" : `: ${says}`;
  switch (state) {
    case "open":
      return `waits for another person, until ${clockTime(expiresAt)}`;
    case "approved":
      return decider === undefined
        ? `waits to be carried out${more}`
        : `was approved${by}, and is not carried out yet${more}`;
    case "done":
      return `${decider === undefined ? "needed no approval" : `was approved${by}`}${more}`;
    case "rejected":
      return `was rejected${by}${more}`;
    case "expired":
      if (decider === undefined && says !== "") return `has ended${more}`;
      return decider === undefined
        ? "has expired: nobody had approved it in time"
        : `has expired: it was approved${by}, and not carried out in time`;
  }
}
