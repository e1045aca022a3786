import type { Problem } from "../event/problem.ts";
import type { WantedStatus } from "./mapped.ts";

/** Why a change cannot continue by itself, and what a person does about it. */
export const REMEDIES = {
  bad_event:
    "Correct the sender: the event must be a CloudEvent 1.0 as documented. Then send it again.",
  unmappable:
    "Correct the record in the CRM, or the mapping. Then send the record again, or redrive.",
  not_fetched:
    "The CRM did not return the record: check its address and credentials. Then redrive.",
  invalid:
    "Correct the named fields in the CRM, or the mapping. Then send the record again, or redrive.",
  service_rejected:
    "Read the service's own words and correct the record or the mapping. Then redrive.",
  variant_changed:
    "The service holds this crmCode as the other variant (person or company) and cannot change that: give the record a new crmCode and terminate the old one.",
  nothing_to_restore:
    "The service does not have this relation, and the event brought no record: send the whole record.",
  contradiction:
    "The service contradicts itself about this crmCode, as the rule says: it may compare codes without case, or hide a relation that this token may not see. Ask its support, or give the record another crmCode. Then redrive.",
  given_up: "The service was unavailable for too long: check that it has recovered. Then redrive.",
  defect: "This is a defect of crmsync: report it with the log line. Redrive once it is fixed.",
} as const;

export type DeadReason = keyof typeof REMEDIES;
export const DEAD_REASONS = Object.keys(REMEDIES) as readonly DeadReason[];

/** Reasons for which sync rejects a change, by the service's reply or its state; intake for all others. */
export const REJECTED_BY_SYNC: ReadonlySet<DeadReason> = new Set([
  "service_rejected",
  "variant_changed",
  "nothing_to_restore",
  "contradiction",
  "given_up",
]);

/** The newest event of a record: what counts of it beside the fields, which it may not have brought. */
export interface NewestEvent {
  readonly order: string;
  readonly status: WantedStatus;
}

export interface DeadLetter {
  /** One dead letter per record, or per event where no record is known. */
  readonly id: string;
  readonly reason: DeadReason;
  readonly problems: readonly Problem[];
  /** The event as it came, serialised. Personal data: encrypted at rest. */
  readonly event: string;
  readonly source: string | undefined;
  readonly crmCode: string | undefined;
  /** The record of the CRM that the event names; "": none. */
  readonly subject: string;
  /** Of that record; it is not kept with the letter. */
  readonly owner?: string | undefined;
  /** Order of the event among those of its record; undefined when unknown. */
  readonly order: string | undefined;
  /** Whether the event brought the record's fields; undefined where no record is known. */
  readonly hasFields?: boolean | undefined;
  /** If it brought no fields, it is another event than `event`: a redrive carries out both then. */
  readonly newest?: NewestEvent | undefined;
  /** How the event arrived, for a redrive; only where its order is unknown. */
  readonly arrival?: { readonly at: number; readonly number: number } | undefined;
  /** When the event arrived or the change was given up, ms. */
  readonly at: number;
}

/** What a dead letter is about: a record, or an event whose record is unknown. */
export type DeadSubject = { readonly crmCode: string } | { readonly eventKey: string };

/** The one constructor of dead letters. */
export function createDeadLetter(
  about: DeadSubject,
  letter: Pick<DeadLetter, "reason" | "problems" | "event" | "at"> & {
    readonly source?: string | undefined;
    /** Default: that of the event. */
    readonly subject?: string;
    readonly owner?: string | undefined;
    readonly order?: string | undefined;
    readonly hasFields?: boolean;
    readonly newest?: NewestEvent | undefined;
    readonly arrival?: DeadLetter["arrival"];
  },
): DeadLetter {
  const crmCode = "crmCode" in about ? about.crmCode : undefined;
  return {
    source: undefined,
    order: undefined,
    ...letter,
    crmCode,
    subject: letter.subject ?? subjectIn(letter.event),
    id: "crmCode" in about ? deadLetterId(about.crmCode) : `e:${about.eventKey}`,
  };
}

/** Longest subject of an event, in UTF-16 units: a longer one is not that of a record. */
const SUBJECT_MAX = 512;

function subjectIn(event: string): string {
  try {
    const { subject } = (JSON.parse(event) ?? {}) as { subject?: unknown };
    return typeof subject === "string" && subject.length <= SUBJECT_MAX ? subject : "";
  } catch {
    return "";
  }
}

export const deadLetterId = (crmCode: string): string => `c:${crmCode}`;
