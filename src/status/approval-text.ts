/** Tells in words what was asked, and what became of it. No crmCodes. Pure. */
import { counted } from "../ops/counted.ts";
import type { Approval, Asked } from "../state/approvals.ts";
import { clockTime } from "./clock-time.ts";

/** "release 3 held changes" */
export function askedText({
  act,
  count,
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
  }
}

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
      return decider === undefined
        ? "has expired: nobody had approved it in time"
        : `has expired: it was approved${by}, and not carried out in time`;
  }
}
