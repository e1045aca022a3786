/** Reads one record of a CRM as events bring it: with the records that belong to it. */
import { settingOf, type Config } from "../../base/config.ts";
import { splitSubject } from "../../core/event/crm-event.ts";
import { needsRelated } from "../../core/sync/mapped.ts";
import type { Mapping } from "../mapping/mapping.ts";
import type { CrmApi } from "./api-client.ts";
import type { CrmSource } from "./connector.ts";
import { CRMS } from "./connectors.ts";
import type { FetchedRecord, NotRead, RecordApi, RecordReader } from "./record-reader.ts";
import { withRelated } from "./related.ts";

export const crmNamed = (crm: string): CrmSource | undefined =>
  CRMS.find(({ name }) => name === crm);

/** Variables that asking this CRM needs and that have no value. */
export const missingSettings = (config: Config, { needs }: CrmSource): string[] =>
  needs.filter((name) => settingOf(config, name) === undefined);

export function canFetch(config: Config, crm: string): boolean {
  const source = crmNamed(crm);
  return source !== undefined && missingSettings(config, source).length === 0;
}

/** What requests to a CRM need, or why there can be none. */
export function accessTo(
  api: CrmApi,
  config: Config,
  crm: string,
): NotRead | { readonly reader: RecordReader; readonly api: RecordApi } {
  const source = crmNamed(crm);
  const missing = source === undefined ? [crm] : missingSettings(config, source);
  if (source === undefined || missing.length > 0) {
    return { kind: "client_error", reason: `not configured: ${missing.join(", ")}` };
  }
  return {
    reader: source.reader,
    api: { ...api, setting: (name: string) => settingOf(config, name)?.() ?? "" },
  };
}

/** @param notePart called with the subject of each record whose changes are those of this one. */
export async function readWhole(
  api: CrmApi,
  config: Config,
  crm: string,
  subject: string,
  {
    mapping,
    notePart,
  }: {
    readonly mapping: Pick<Mapping, "reads" | "relations">;
    readonly notePart?: (part: string) => void;
  },
): Promise<FetchedRecord> {
  const access = accessTo(api, config, crm);
  if ("kind" in access) return access;
  const { object, recordId } = splitSubject(subject);
  const { reads, relations = [] } = mapping;
  const fetched = await access.reader.fetchRecord(access.api, object, recordId, reads);
  if (fetched.kind !== "found" || !needsRelated(mapping, object)) return fetched;
  const own = [{ id: recordId, record: fetched.record }];
  const options = { reads, relations, ...(notePart && { notePart }) };
  const whole = await withRelated(access.api, crm, object, own, options);
  if ("kind" in whole) return whole;
  return { ...fetched, record: whole[0]?.record ?? fetched.record };
}
