import type { Problem } from "./problem.ts";

/** Why a change cannot go on by itself, and what a person does about it. */
export const REMEDIES = {
  bad_event:
    "Correct the producer: the event must be CloudEvents 1.0 as the documentation shows; then send it again.",
  unmappable:
    "Correct the record in the CRM or the mapping; then send the record again or redrive.",
  not_fetched:
    "The CRM did not give the record: see that its address and credentials are right; then redrive.",
  invalid:
    "Correct the named fields in the CRM or the mapping; then send the record again or redrive.",
  service_rejected:
    "Read the service's own words, correct the record or the mapping; then redrive.",
  variant_changed:
    "The service holds this crmCode as the other kind (person or company) and cannot turn one into the other: give the record a new crmCode, and terminate the old one.",
  nothing_to_restore:
    "The service does not have this relation and the event brought no record: send the whole record.",
  given_up: "The service failed for too long: see that it is well again; then redrive.",
  defect: "This is a defect of crmsync: report it with the log line; redrive once it is mended.",
} as const;

export type DeadReason = keyof typeof REMEDIES;
export const DEAD_REASONS = Object.keys(REMEDIES) as readonly DeadReason[];

export interface DeadLetter {
  /** One letter per record, or per event where no record is known. */
  readonly id: string;
  readonly reason: DeadReason;
  readonly problems: readonly Problem[];
  /** The event as it came, serialised; personal data, so sealed at rest. */
  readonly event: string;
  readonly source: string | undefined;
  readonly crmCode: string | undefined;
  /** Order of the event among those of its record; undefined when that is not known. */
  readonly order: string | undefined;
  readonly at: number;
}

export const deadIdOf = (crmCode: string): string => `c:${crmCode}`;
export const deadIdOfEvent = (key: string): string => `e:${key}`;
