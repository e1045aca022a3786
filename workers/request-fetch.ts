/** Which records can be fetched from their CRM, and what requests it; workers/fetch.ts carries it out. */
import { settingOf, type Config } from "../src/config.ts";
import { CRMS } from "../src/crm/connectors.ts";
import { isReadable, type RecordReader } from "../src/crm/record-reader.ts";
import { splitSubject, type CrmEvent } from "../src/event/crm-event.ts";
import type { Problem } from "../src/event/problem.ts";
import { isDeletion } from "./fetched-event.ts";
import type { Runtime } from "./runtime.ts";

/** Whether records of a CRM can be fetched with the present configuration. */
export function canFetch(config: Config, crm: string): boolean {
  const reader = readerOf(crm);
  return reader !== undefined && missingSettings(config, reader).length === 0;
}

/** Lets an event's record be fetched. @returns why it cannot be. */
export async function requestFetch(
  runtime: Runtime,
  event: CrmEvent,
  crm: string,
  order: string,
): Promise<Problem | undefined> {
  const reader = readerOf(crm);
  const kind = "an event without its record";
  if (reader === undefined) {
    const known = CRMS.filter((one) => one.reader !== undefined).map(({ name }) => name);
    return { field: "data.fetch", rule: `must be one of ${known.join(", ")}`, kind };
  }
  const { object, recordId } = splitSubject(event.subject);
  if (!isReadable(object) || !isReadable(recordId)) {
    const rule = `must be <object>/<recordId> of letters, digits, _ and -, to be fetched from ${crm}`;
    return { field: "subject", rule, kind: "another text" };
  }
  const missing = missingSettings(runtime.config, reader);
  if (missing.length > 0) {
    const rule = `is required; to have it fetched from the CRM, set ${missing.join(", ")}`;
    return { field: "data.record", rule, kind };
  }
  const { subject } = event;
  const pointer = { crm, subject, ...(isDeletion(event) && { deletion: true as const }) };
  await runtime.thinEvents.put(pointer, order, JSON.stringify(event), event.lane);
  return undefined;
}

export const readerOf = (crm: string): RecordReader | undefined =>
  CRMS.find(({ name }) => name === crm)?.reader;

/** Variables that reading from this CRM needs and that have no value. */
export const missingSettings = (config: Config, reader: RecordReader): string[] =>
  reader.needs.filter((name) => settingOf(config, name) === undefined);
