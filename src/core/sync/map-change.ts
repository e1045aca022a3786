/** The second step of THE PATH: a record becomes a candidate, unless its CRM must be asked for it first. */
import { splitSubject, type CrmEvent } from "../event/crm-event.ts";
import type { Problem } from "../event/problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { CheckedRecord } from "./check-event.ts";
import { partsOf, type Mapped, type Relation, type RecordChange, hasRecord } from "./mapped.ts";

/** The record, or those to which it belongs, must be read from the CRM first, and return as events of their own. */
export interface Fetching {
  readonly kind: "fetching";
  /** Why it cannot be read; undefined when it will be. */
  readonly problem: Problem | undefined;
}

export interface MapPorts {
  /** Lets the CRM be asked for what the event did not bring. @returns undefined: it has brought all that is needed. */
  fetch(event: CrmEvent, order: string): Promise<Omit<Fetching, "kind"> | undefined>;
  /** @param subject whose record: the event's own, or one that was merged into it. */
  map(event: CrmEvent, subject: string, lists: TenantLists): Promise<Mapped>;
  /** The crmCode to which this record of the CRM led before; undefined where its own id says it, or nothing is known. */
  codeOf(subject: string): Promise<string | undefined>;
}

export async function mapChange(
  change: CheckedRecord,
  lists: TenantLists,
  ports: MapPorts,
): Promise<Mapped | Fetching> {
  const { event, order, subject } = change;
  const fetched = subject === event.subject ? await ports.fetch(event, order) : undefined;
  if (fetched !== undefined) return { kind: "fetching", problem: fetched.problem };
  const mapped = await ports.map(event, subject, lists);
  return isGuessed(mapped, hasRecord(change))
    ? withKnownCode(mapped, await ports.codeOf(subject))
    : mapped;
}

/**
 * Whether the crmCode was made without the record, from the subject alone: the record may have led to another one.
 * @param brought whether the event has brought it
 */
export const isGuessed = (mapped: Mapped, brought: boolean): boolean =>
  mapped.kind === "mapped" ? mapped.candidate === undefined : !brought;

/** @param known the crmCode to which the record led before; undefined: not known */
export const withKnownCode = (mapped: Mapped, known: string | undefined): Mapped =>
  known === undefined ? mapped : { ...mapped, crmCode: known };

/**
 * The CRM from which the record must be fetched first; undefined when the event needs no fetch.
 * @param objects that the mapping has rules for; empty when it does not know. Records of others are
 *   ignored or rejected, whatever they contain.
 */
export function crmToFetchFrom(
  { event, subject }: RecordChange,
  objects: readonly string[],
): string | undefined {
  const { record, fetch } = event.data ?? {};
  if (record !== undefined || subject !== event.subject) return undefined;
  return objects.length === 0 || hasRule(subject, objects) ? fetch : undefined;
}

export function hasRule(subject: string, objects: readonly string[]): boolean {
  const object = splitSubject(subject).object.toLowerCase();
  return objects.some((one) => one.toLowerCase() === object);
}

interface MappedObjects {
  readonly objects: readonly string[];
  readonly relations?: readonly Relation[];
}

/** Whether a record is only a part of others, which are read instead. */
export const isPartOnly = (subject: string, { objects, relations }: MappedObjects): boolean =>
  partsOf(relations, splitSubject(subject).object).length > 0 && !hasRule(subject, objects);

/** Of a trial, in which nothing is fetched: whether the CRM would be asked first. */
export const fetchedInTrial =
  (mapping: MappedObjects): MapPorts["fetch"] =>
  async (event) => {
    const { subject } = event;
    const crm = crmToFetchFrom({ event, subject }, mapping.objects);
    return crm !== undefined || isPartOnly(subject, mapping) ? { problem: undefined } : undefined;
  };
