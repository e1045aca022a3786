/** The ids of an event whose record is to be fetched, as the CRM itself writes them. */
import { CRMS } from "./connectors.ts";

interface ThinEvent {
  readonly subject: string;
  readonly data?:
    | {
        readonly record?: unknown;
        readonly fetch?: string | undefined;
        readonly merged?: readonly string[] | undefined;
      }
    | undefined;
}

/** The event with the CRM's own ids: another spelling would be another crmCode, and so a second relation. */
export function withOwnIds<Event extends ThinEvent>(event: Event): Event {
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
