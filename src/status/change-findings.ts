/** What is wrong with changes although they flow: rejected, retried without success, or slow. Pure. */
import type { MostRetried } from "../state/retried-records.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Rejections } from "./rejections.ts";
import type { Slowness } from "./slowness.ts";
import { inWords } from "../sync/service-reply.ts";

export function rejectionFindings(rejections: readonly Rejections[]): Finding[] {
  return rejections.map(({ role, since, rejected, checked, top }) => {
    const percent = Math.round((100 * rejected) / checked);
    const which = role === "intake" ? "changes" : "changes sent";
    const says = `${percent} % of the ${which} since ${clockTime(since)} were rejected (${rejected} of ${checked}), ${mostText(rejected, top)}.`;
    return finding("critical", "crmsyncchangesrejected", says);
  });
}

function mostText(rejected: number, { reason, field, count }: Rejections["top"]): string {
  const [what, filter] =
    field === "none" || field === "other"
      ? [reason, `--reason ${reason}`]
      : [`${field} (${reason})`, `--field ${field}`];
  const share =
    count === rejected
      ? `all for ${what}`
      : count > rejected / 2
        ? `most for ${what}`
        : `for several reasons, most often ${what}, ${count} times`;
  return `${share}: crmsync dead list ${filter}`;
}

export function retryFindings(retried: MostRetried | undefined): Finding[] {
  if (retried === undefined) return [];
  const { records, tries, since, record } = retried;
  const reason = inWords(retried.reason);
  const tried = `retried ${tries} times since ${clockTime(since)}`;
  const says =
    records === 1
      ? `1 record has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`
      : `${records} records fail and are to be retried; one has been ${tried}: ${reason}. The hash of its crmCode is ${record}.`;
  return [finding("warning", "one-record-is-missing", says)];
}

export function slownessFindings(slowness: Slowness | undefined): Finding[] {
  if (slowness === undefined) return [];
  const { since, recentMs, usualMs } = slowness;
  const says = `The service has been slow since ${clockTime(since)}: half of its replies take ${seconds(recentMs)} or longer; usual are ${seconds(usualMs)}.`;
  return [finding("warning", "crmsyncserviceslow", says)];
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;
