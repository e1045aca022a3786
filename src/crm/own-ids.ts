/** The ids of an event whose record is to be fetched, as the CRM itself writes them. */
import type { CrmEvent } from "../event/crm-event.ts";
import { CRMS } from "./connectors.ts";

/** The event with the CRM's own ids: another spelling would be another crmCode, and so a second relation. */
export function withOwnIds(event: CrmEvent): CrmEvent {
  const { fetch: crm, merged, record } = event.data ?? {};
  const reader = CRMS.find(({ name }) => name === crm)?.reader;
  if (reader?.ownId === undefined || record !== undefined) return event;
  const own = (subject: string) => {
    const idAt = subject.indexOf("/") + 1;
    const id = subject.slice(idAt);
    return subject.slice(0, idAt) + (reader.ownId?.(id) ?? id);
  };
  const data = { ...event.data, ...(merged !== undefined && { merged: merged.map(own) }) };
  return { ...event, subject: own(event.subject), data };
}
