/** Redrives dead letters: those that a person asks for, and those that the tenant's lists allow now. */
import {
  forecastOf,
  openRedriveView,
  type RedriveView,
} from "../src/people/dead-letters/forecast.ts";
import { redrive } from "../src/people/dead-letters/redrive.ts";
import type { StoredDeadLetter } from "../src/core/state/dead-letters.ts";
import type { AcceptPorts } from "../src/core/sync/accept-event.ts";
import type { Accepted } from "../src/core/sync/end-record.ts";
import { isKeptProblem, isTenantProblem } from "../src/core/sync/validate.ts";
import { reportAccepted, type OutcomeParts } from "./report-outcome.ts";
import { fetchAgain, type FetchRequestParts } from "./request-fetch.ts";
import type { Uses } from "./parts.ts";

export type RedriveParts = OutcomeParts &
  FetchRequestParts &
  Uses<"deadLetters" | "inbox" | "keyring" | "ledger" | "records" | "staged" | "tenantLists">;

/** @returns `again` when it must be done again later (`Redriven.again`). */
export async function redriveDeadLetter(
  parts: RedriveParts,
  id: string,
  ports: AcceptPorts,
): Promise<"done" | "again"> {
  const { clock, deadLetters, log, metrics, recordName, tenantLists } = parts;
  const letter = await deadLetters.find(id);
  const now = clock.now();
  // The lists of another process may have rejected it: with older ones it would be rejected again and again.
  await tenantLists.reload();
  const redriven = letter && (await redrive(letter, now, ports, parts));
  if (redriven === undefined) return "done";
  const { again, dropped, event, records } = redriven;
  if (again) return "again";
  const source = metrics.sourceLabel(event?.source ?? "unknown");
  for (const record of records) reportAccepted(parts, record, event, source, now);
  if (dropped) {
    const record = recordName(letter?.crmCode ?? event?.subject);
    log.info({ record, source, why: outcomeOf(records) }, "dead_letter.dropped");
  }
  return "done";
}

/**
 * The tenant's value lists have changed: redrives the dead letters that may pass now, and lets the records be fetched
 * again whose relation lacks a value of these fields, whose lists have more.
 */
export async function redriveAllowed(parts: RedriveParts, grown: readonly string[]): Promise<void> {
  const { deadLetters, inbox, log, tenantLists } = parts;
  let redriven = 0;
  try {
    const view = await openRedriveView(parts, parts.mapping);
    for await (const letter of deadLetters.all()) {
      const isByOldList = letter.reason === "service_rejected" && isOfLastHour(letter, parts);
      if (!isByOldList && !isRejectedEnd(letter) && !(await isAllowed(letter, view))) continue;
      await inbox.redrive(letter.id);
      redriven += 1;
    }
    if (grown.length > 0) await fetchLacking(parts, grown);
  } finally {
    await tenantLists.endChange();
  }
  if (redriven > 0) log.info({ records: redriven, why: "value lists" }, "dead_letter.redriven");
}

/** Fetched once a list has more values, at most; a comparison finds the others, and those of which no CRM can be read. */
const MOST_FETCHED = 1000;

async function fetchLacking(parts: RedriveParts, grown: readonly string[]): Promise<void> {
  const { clock, ledger, log, tenantLists } = parts;
  const missed: Record<string, number> = Object.fromEntries(grown.map((field) => [field, 0]));
  let fetched = 0;
  for await (const { orders, terminated, without } of ledger.rows()) {
    const lacks = without?.fields.filter((field) => grown.includes(field)) ?? [];
    if (without === undefined || lacks.length === 0 || terminated) continue;
    if (fetched < MOST_FETCHED && (await fetchAgain(parts, without, orders.fields))) fetched += 1;
    else for (const field of lacks) missed[field] = (missed[field] ?? 0) + 1;
  }
  if (fetched > 0) log.info({ fields: grown, records: fetched }, "value_lists.fetched_again");
  for (const [field, records] of Object.entries(missed)) {
    if (records > 0) log.warn({ fields: [field], records }, "value_lists.values_left_out");
  }
  await tenantLists.noteMissed(missed, clock.now());
}

/** Clocks of processes and of Redis may differ by this, ms. */
const CLOCKS_MS = 5000;

/** The service accepts what it has rejected before: redrives the changes that it has rejected since `since`, ms. */
export async function redriveRejected(
  parts: Uses<"deadLetters" | "inbox" | "log">,
  since: number,
): Promise<void> {
  const { deadLetters, inbox, log } = parts;
  let redriven = 0;
  for await (const { at, id, reason } of deadLetters.details()) {
    if (reason !== "service_rejected" || at < since - CLOCKS_MS) continue;
    await inbox.redrive(id);
    redriven += 1;
  }
  if (redriven > 0)
    log.info({ records: redriven, why: "false rejections" }, "dead_letter.redriven");
}

/** Whether only the tenant's lists were in the way of the change, and no longer are. */
async function isAllowed(letter: StoredDeadLetter, view: RedriveView): Promise<boolean> {
  if (letter.reason !== "invalid" || !letter.problems.every(isTenantProblem)) return false;
  const { kind } = await forecastOf(letter, view);
  return (
    kind === "sent" ||
    kind === "settled" ||
    (kind === "unknown" && letter.problems.some(isKeptProblem))
  );
}

/** Lists are asked for once an hour: by an older one, the service may have rejected what the mapping leaves out now. */
const isOfLastHour = ({ at }: StoredDeadLetter, { clock, config }: RedriveParts): boolean =>
  clock.now() - at < config.QUOTA_HOUR_MS + CLOCKS_MS;

/** A termination sends what the service has: without the values that have left the lists, it may pass. */
const isRejectedEnd = ({ newest, reason }: StoredDeadLetter): boolean =>
  reason === "service_rejected" && newest?.status === "terminated";

const outcomeOf = (records: readonly Accepted[]): string =>
  [...new Set(records.map(({ result }) => result))].join(", ");
