import { parseEvent, splitSubject } from "../event/crm-event.ts";
import { mapEventRecord } from "../mapping/map-event-record.ts";
import type { Mapping } from "../mapping/mapping.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { Named } from "./person.ts";

/** Names what events are about, with the crmCode that the mapping makes of their records. */
export class EventNames {
  readonly #mapping: Mapping;
  readonly #lists: TenantLists;

  constructor(mapping: Mapping, lists: TenantLists) {
    this.#mapping = mapping;
    this.#lists = lists;
  }

  /** @param value may be no event: then only its subject counts, if it has one. */
  async of(value: unknown): Promise<Named> {
    const parsed = parseEvent(value, Number.POSITIVE_INFINITY);
    if (!parsed.ok) return { subject: subjectIn(value) };
    const { type, source, subject, data } = parsed.event;
    const context = { type, source, subject, ...splitSubject(subject) };
    const mapped = await mapEventRecord(this.#mapping, context, data?.record, this.#lists);
    return { subject, crmCode: mapped.crmCode, merged: data?.merged };
  }

  /** The crmCode of a record, where the mapping can make it from the subject alone. */
  async crmCodeOf(subject: string): Promise<string | undefined> {
    const context = { type: "crm.record.deleted", source: "", subject, ...splitSubject(subject) };
    const mapped = await this.#mapping.map(context, undefined, this.#lists);
    return mapped.crmCode;
  }
}

/** @param text an event as JSON. */
export const subjectOf = (text: string): string | undefined => subjectIn(parsedOrText(text));

export function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function subjectIn(value: unknown): string | undefined {
  const { subject } = (typeof value === "object" && value !== null ? value : {}) as {
    subject?: unknown;
  };
  return typeof subject === "string" ? subject : undefined;
}
