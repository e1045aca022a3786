/** The status as text: one line each, findings first. */
import { crmsync } from "../../base/command.ts";
import { counted } from "../../base/counted.ts";
import { brokenAt } from "../../base/command.ts";
import { bulkText, unknownText } from "./bulk.ts";
import { duration, localTime } from "./clock-time.ts";
import { areProcessesUnknownIn, type Status } from "./status.ts";

/** Styles a text; a stream without colours leaves it as it is. */
export type Paint = (style: "bold" | "dim" | "red" | "yellow" | "green", text: string) => string;

const BAR_CELLS = 24;
const LABEL_CELLS = 11;

const WARMTH: Readonly<Record<string, string>> = {
  new: "not warmed yet",
  running: "being warmed",
  cold: "cold",
};

export interface View {
  readonly paint: Paint;
  /** Whether bars are drawn. */
  readonly bars: boolean;
  /** The most changes that waited while the status was watched; undefined when shown once. */
  readonly peak: number | undefined;
  /** Lines are broken at blanks, at so many characters; undefined: they are not. */
  readonly columns?: number | undefined;
}

export function statusLines(status: Status, view: View): string[] {
  const { paint, columns } = view;
  const line = (label: string, text: string) => {
    const [first = "", ...more] = brokenAt(label.padEnd(LABEL_CELLS) + text, columns, LABEL_CELLS);
    return [paint("dim", first.slice(0, LABEL_CELLS)) + first.slice(LABEL_CELLS), ...more];
  };
  const findings = status.findings.flatMap(({ severity, says, runbook }) => {
    const isWarning = severity === "warning";
    const lines = brokenAt(`${isWarning ? "!" : "✗"} ${says}`, columns, 2);
    const painted = lines.map((text) => paint(isWarning ? "yellow" : "red", text));
    return [...painted, paint("dim", `  ${runbook}`)];
  });
  return [
    `${paint("bold", "crmsync")} ${status.version} · ${processesText(status)} · ${localTime(status.at)}`,
    ...(findings.length > 0 ? findings : [paint("green", calmText(status))]),
    "",
    ...line("backlog", backlogText(status, view)),
    ...line("drained", drainedText(status)),
    ...line("bulk", bulkText(status.bulk, status.at)),
    ...line("quota", quotaText(status, view)),
    ...line("last hour", countsText(status.outcomesOfLastHour) || "nothing ended"),
    ...line("dead", deadText(status)),
    ...line("held", heldText(status)),
    ...(status.emptied.fields.length > 0 ? line("emptied", emptiedText(status)) : []),
    ...(Object.keys(status.leftOut).length > 0
      ? line(
          "left out",
          `${countsText(status.leftOut)} in the last hour; the service keeps what it has, or gets a fallback, a default or the rest of a list`,
        )
      : []),
    ...(status.denial.state === "none" ? [] : line("denial", denialText(status))),
    ...(status.ledger.state === "done" ? [] : line("ledger", ledgerText(status))),
    ...line("records", recordsText(status)),
    ...line("reconciled", reconciledText(status)),
    ...line("sources", sourcesText(status)),
    ...(Object.keys(status.pulls).length > 0 ? line("pulled", pullsText(status)) : []),
    ...line("redis", redisText(status)),
  ];
}

function processesText(status: Status): string {
  const { processes } = status;
  if (processes.length === 0) {
    return areProcessesUnknownIn(status)
      ? "which processes run is not known"
      : "no process is running";
  }
  const versions = new Set(processes.map(({ version }) => version));
  const mixed = versions.size > 1 ? ` of versions ${[...versions].join(" and ")}` : "";
  const roles = processes.map(({ roles }) => roles.join("+")).join(", ");
  return `${counted(processes.length, "process", "processes")}${mixed} (${roles})`;
}

function calmText({ backlog }: Status): string {
  const waiting = waitingIn(backlog);
  return waiting === 0
    ? "✓ nothing needs attention"
    : `✓ nothing needs attention; ${counted(waiting, "change is", "changes are")} on the way`;
}

export const waitingIn = ({ live, bulk, fromPlan, inbox, toFetch }: Status["backlog"]): number =>
  live.records + bulk.records + fromPlan + inbox + toFetch;

function backlogText({ backlog }: Status, { bars, peak = 0 }: View): string {
  const { live, bulk, fromPlan, inbox, toFetch, retrying } = backlog;
  const age = (seconds: number) => (seconds === 0 ? "" : `, oldest ${duration(seconds * 1000)}`);
  const waiting = waitingIn(backlog);
  const done = bars && peak > 0 && waiting > 0 ? `${bar((peak - waiting) / peak)} ` : "";
  return [
    `${done}live ${live.records}${age(live.oldestAgeSeconds)}`,
    `bulk ${bulk.records}${age(bulk.oldestAgeSeconds)}`,
    ...(fromPlan > 0 ? [`${fromPlan} still to come from a plan`] : []),
    `inbox ${inbox}`,
    ...(toFetch > 0 ? [`${toFetch} to fetch from the CRM`] : []),
    ...(retrying > 0 ? [`${retrying} to retry`] : []),
  ].join(" · ");
}

function drainedText({ at, backlog, bulk, terminations }: Status): string {
  const { drainedAt } = backlog;
  if (drainedAt !== null) {
    const inMs = Date.parse(drainedAt) - Date.parse(at);
    if (waitingIn(backlog) > 0 && inMs < 1000) return "within seconds";
    return `${localTime(drainedAt)} (in ${duration(inMs)})`;
  }
  if (waitingIn(backlog) > 0) return `unknown ${unknownText(bulk)}`;
  return terminations.held > 0 ? "now, but for held changes" : "now, nothing waits";
}

function quotaText({ quota }: Status, { bars }: View): string {
  const { foreign, limit, remaining, pacing } = quota;
  const spent = remaining < limit;
  return [
    `${bars ? `${bar(remaining / limit)} ` : ""}${remaining} of ${limit} left`,
    ...(spent
      ? [
          `next returns ${localTime(quota.nextReturnAt)}`,
          `all back ${localTime(quota.allReturnedAt)}`,
        ]
      : []),
    ...(foreign > 0 ? [`${foreign} spent by the service's count alone`] : []),
    ...(pacing === "steady" ? [`pacing ${pacing}`] : []),
  ].join(" · ");
}

function deadText({ deadLetters: { total, byReason } }: Status): string {
  return total === 0 ? "none" : `${total}: ${countsText(byReason)}`;
}

function heldText({ terminations }: Status): string {
  const { held, heldSince, inLast24Hours, limit } = terminations;
  const waiting = heldSince === null ? "none" : `${held} since ${localTime(heldSince)}`;
  const counted =
    limit === null ? "unlimited" : `${inLast24Hours} of ${limit} terminations in 24 hours`;
  return `${waiting} · ${counted}`;
}

/** The fields that lose their values most often first. */
const emptiedText = ({ emptied: { fields } }: Status): string =>
  `${fields.map(({ emptied, field, updated }) => `${field} on ${emptied} of ${updated} relations`).join(" · ")} in the last hour`;

function denialText({ denial, token }: Status): string {
  const age = token.ageDays === null ? "of unknown age" : `${token.ageDays} days old`;
  const state = denial.state.replace("_", " ");
  return `${state}${denial.since === null ? "" : ` since ${localTime(denial.since)}`} · token ${age}`;
}

/** A listing counts from 0, whatever the ledger knows already. */
const ledgerText = ({ ledger: { relations, rows, state } }: Status): string =>
  `${WARMTH[state]}, ${counted(relations, "relation")} listed, ${counted(rows, "record")} known`;

/** Names the list behind the numbers above: of what needs a person, or of all. */
function recordsText({
  backlog,
  deadLetters,
  ledger,
  reconciliation,
  terminations,
}: Status): string {
  const states = [
    ...(deadLetters.total > 0 ? ["rejected"] : []),
    ...(terminations.held > 0 ? ["held"] : []),
    ...(waitingIn(backlog) > 0 ? ["waiting", "retrying"] : []),
    ...(reconciliation.exports.some(({ since }) => since.length > 0) ? ["differing"] : []),
  ];
  const list = crmsync`records ${states.flatMap((state) => ["--state", state])}`;
  return `${ledger.rows} known · ${list} ${states.length === 0 ? "lists all" : "lists these"}`;
}

function reconciledText({ at, reconciliation }: Status): string {
  const { drift, equal, exports, folder, lastRuns, nextRunAt, records } = reconciliation;
  const ago = (time: string) => `${duration(Date.parse(at) - Date.parse(time))} ago`;
  const compared =
    reconciliation.at === null
      ? "never"
      : `last compared ${localTime(reconciliation.at)}: ${equal} of ${records} equal · ${countsText(drift) || "no difference left"}`;
  return [
    compared,
    // Not what differs now: a plan, or later changes, may have repaired it.
    ...exports.flatMap(({ asOf, name, since }) => {
      const known = since.map((one) => ({ ...one, at: Date.parse(one.at) }));
      return known.length === 0
        ? []
        : [`${name}, as of ${localTime(asOf)}: ${differText(known, localTimeOf)}`];
    }),
    ...Object.entries(lastRuns).map(
      ([source, last]) => `by ${source} ${ago(last.at)}: ${last.result}`,
    ),
    ...(nextRunAt === null
      ? []
      : [`${isDue(nextRunAt, at) ? "due since" : "next"} ${localTime(nextRunAt)}`]),
    ...(folder === null ? [] : [`folder: ${folder.waiting} waiting, ${folder.failed} failed`]),
  ].join(" · ");
}

const localTimeOf = (ms: number): string => localTime(new Date(ms).toISOString());

/** `44 differ: 41 since 02:00:00 UTC, 3 since 2026-11-12 02:00:00 UTC (held)`, newest first. @param since oldest first */
export function differText(
  since: readonly { readonly at: number; readonly count: number; readonly held: number }[],
  timeText: (ms: number) => string,
): string {
  const all = since.reduce((sum, { count }) => sum + count, 0);
  const parts = since.toReversed().map(({ at, count, held }) => {
    const why = held === 0 ? "" : held === count ? " (held)" : ` (${held} held)`;
    return `${count} since ${timeText(at)}${why}`;
  });
  return `${all} ${all === 1 ? "differs" : "differ"}: ${parts.join(", ")}`;
}

/** A run that is due runs now, or is tried again later. */
const isDue = (time: string, at: string): boolean => Date.parse(time) <= Date.parse(at);

function sourcesText({ at, sources }: Status): string {
  const known = Object.entries(sources).map(([name, { lastEventAt }]) => {
    return `${name} ${duration(Date.parse(at) - Date.parse(lastEventAt))} ago`;
  });
  return known.length === 0 ? "none so far" : known.join(" · ");
}

const pullsText = ({ at, pulls }: Status): string =>
  Object.entries(pulls)
    .map(([crm, { failure, lastPullAt, listed, missedByWebhooks }]) =>
      [
        lastPullAt === null
          ? `${crm} not yet`
          : `${crm} ${duration(Date.parse(at) - Date.parse(lastPullAt))} ago`,
        ...(failure === null ? [] : ["failing"]),
        ...(listed === null ? [] : [`lists all records, ${listed} so far`]),
        ...(missedByWebhooks > 0 ? [`${missedByWebhooks} without a webhook in the last hour`] : []),
      ].join(", "),
    )
    .join(" · ");

function redisText({ redis }: Status): string {
  const used = `${(redis.usedBytes / 2 ** 20).toFixed(1)} MiB`;
  const limit =
    redis.limitBytes === null ? "" : ` of ${(redis.limitBytes / 2 ** 20).toFixed(0)} MiB`;
  const ping = `answers in ${Math.ceil(redis.pingMs)} ms`;
  return `${redis.version} · ${redis.durable ? "durable" : "NOT durable"} · ${used}${limit} · ${ping}`;
}

function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name.replaceAll("_", " ")} ${count}`)
    .join(" · ");
}

function bar(part: number): string {
  const full = Math.round(BAR_CELLS * Math.min(1, Math.max(0, part)));
  return "█".repeat(full) + "░".repeat(BAR_CELLS - full);
}
