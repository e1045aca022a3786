import {
  MAX_DEPTH,
  parseEvent,
  splitSubject,
  subjectIn,
  isDeeperThan,
} from "../event/crm-event.ts";
import { isObject } from "../mapping/is-object.ts";
import { mapEventRecord } from "../mapping/map-event-record.ts";
import type { Mapping } from "../mapping/mapping.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { Named } from "./person.ts";

/** Names what events are about, with the crmCode that the mapping makes of their records. */
export const eventNames = (mapping: Mapping, lists: TenantLists) => ({
  /** @param value may be no valid event: then its subject counts, and the crmCode of its record. */
  async of(value: unknown): Promise<Named> {
    if (isDeeperThan(MAX_DEPTH, value)) return { subject: subjectIn(value) };
    const parsed = parseEvent(value, Number.POSITIVE_INFINITY, mapping.ids);
    const { type, source, subject, data } = parsed.ok ? parsed.event : partsOf(value);
    if (!parsed.ok && data?.record === undefined) return { subject };
    const name = subject ?? "";
    const context = { type, source, subject: name, ...splitSubject(name) };
    const mapped = await mapEventRecord(mapping, context, data?.record, lists);
    return { subject, crmCode: mapped.crmCode, merged: data?.merged };
  },

  /** The crmCode of a record, where the mapping can make it from the subject alone. */
  async crmCodeOf(subject: string): Promise<string | undefined> {
    const context = { type: "crm.record.deleted", source: "", subject, ...splitSubject(subject) };
    const mapped = await mapping.map(context, undefined, lists);
    return mapped.crmCode;
  },
});

export type EventNames = ReturnType<typeof eventNames>;

/** What can be used of something that is no valid event. */
function partsOf(value: unknown) {
  const { type, source, data } = isObject(value) ? value : {};
  const record = isObject(data) && isObject(data["record"]) ? data["record"] : undefined;
  return {
    type: typeof type === "string" ? type : "",
    source: typeof source === "string" ? source : "",
    subject: subjectIn(value),
    data: { record, merged: undefined },
  };
}
