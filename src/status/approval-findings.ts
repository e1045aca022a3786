/** Acts that wait for a second person: one finding each, so that each is notified. Pure. */
import { isOver } from "../state/approvals.ts";
import { askedText, endText } from "./approval-text.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

/** Most that are named; the others are in crmsync approvals list. */
const MOST_NAMED = 10;

export const approvalFindings = ({ approvals, now }: Readings): Finding[] =>
  approvals
    .filter((one) => one.state === "open" && !isOver(one, now))
    .sort((a, b) => a.askedAt - b.askedAt)
    .slice(0, MOST_NAMED)
    .map((one) => {
      const says = `1 act waits for approval: ${one.asker.by} asks to ${askedText(one)}. It ${endText(one)} (crmsync approvals approve ${one.id}).`;
      return finding("warning", "an-act-waits-for-approval", says, one.id);
    });
