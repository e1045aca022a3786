/** What intake would make of one event of the snapshot. */
import { parseEvent, splitSubject, type CrmEvent } from "../../core/event/crm-event.ts";
import { eventOrder } from "../../core/event/event-order.ts";
import { eventRules, mapEvent } from "../../intake/mapping/map-event-record.ts";
import type { MapOptions, Mapping, MappingWarning } from "../../intake/mapping/mapping.ts";
import { unclearGone } from "../preview/read-records.ts";
import { recordIds } from "../../intake/mapping/record-ids.ts";
import type { NotCarried } from "../../intake/mapping/unread-paths.ts";
import type { Problem } from "../../core/event/problem.ts";
import { printable } from "../../base/printable.ts";
import { UserError } from "../../base/user-error.ts";
import { FIELDS_OF } from "../../core/service-spec/business-relation.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { bodyOf } from "../../core/sync/decide.ts";
import type { FingerprintOf } from "../../core/sync/fingerprint.ts";
import { crmToFetchFrom } from "../../core/sync/map-change.ts";
import { planChange, saysStatus, type Plan } from "../../core/sync/plan-change.ts";
import { unlistedValue } from "../../core/sync/validate.ts";
import type { WantedRecord } from "./compare.ts";
import { SOURCE, type SnapshotEvent } from "./read-events.ts";

export interface PlanningView {
  readonly mapping: Mapping;
  readonly lists: TenantLists;
  readonly fingerprintOf: FingerprintOf;
  /** By object: what no record of the snapshot has. */
  readonly notCarried?: Readonly<Record<string, NotCarried>>;
  readonly changed: NonNullable<MapOptions["changed"]>;
  /** The present time, ms. */
  readonly now: () => number;
}

type Body = Readonly<Record<string, unknown>>;

export type LeftOutValue = Pick<MappingWarning, "field" | "reason">;

/** Why a record cannot be used. */
export interface Refusal extends Problem {
  /** That the tenant's list lacks. */
  readonly value?: string | undefined;
}

export const refusalText = ({ field, rule, value }: Refusal): string =>
  value === undefined
    ? `${field || "it"} ${rule}`
    : `${field} ${printable(JSON.stringify(value))}: not on the tenant's list`;

export type PlannedRecord = {
  readonly position: number;
  readonly place: string;
  /** Of the record, by `owner` of the mapping. */
  readonly owner?: string | undefined;
} & (
  | {
      readonly kind: "wanted";
      readonly crmCode: string;
      readonly order: string;
      readonly wanted: WantedRecord;
      /** Values that the mapping left out. */
      readonly leftOut: readonly LeftOutValue[];
      readonly body: Body | undefined;
    }
  | { readonly kind: "ignored"; readonly crmCode: string | undefined }
  | {
      readonly kind: "invalid" | "unmappable";
      readonly crmCode: string | undefined;
      readonly problems: readonly Refusal[];
    }
);

export async function planRecord(
  { event: value, place, position }: SnapshotEvent,
  view: PlanningView,
): Promise<PlannedRecord> {
  const at = { position, place };
  const parsed = parseEvent(value, view.now(), recordIds(view.mapping));
  if (!parsed.ok) {
    return { ...at, kind: "invalid", crmCode: undefined, problems: parsed.problems };
  }
  const event = deletionOr(parsed.event, place, view);
  const change = { event, subject: event.subject };
  if (crmToFetchFrom(change, view.mapping.objects) !== undefined) {
    const problems = [{ field: "data.record", rule: "is required", kind: "nothing" }];
    return { ...at, kind: "unmappable", crmCode: undefined, problems };
  }
  const mapped = await map(event, view);
  const plan = planChange(change, mapped, view.lists, view.fingerprintOf);
  const { owner } = mapped.kind === "ignored" ? {} : mapped;
  if (plan.kind === "ignore") return { ...at, kind: "ignored", crmCode: plan.crmCode };
  if (plan.kind === "reject") {
    const { candidate = {} } = mapped.kind === "mapped" ? mapped : {};
    const problems = plan.problems.map((one) => ({
      ...one,
      value: unlistedValue(one, candidate),
    }));
    return { ...at, kind: plan.reason, crmCode: plan.crmCode, owner, problems };
  }
  const leftOut = mapped.kind === "mapped" ? mapped.warnings.filter(isLeftOut) : [];
  const { crmCode } = plan;
  const lacks = lacksOf(event, plan, view);
  const { body, wanted } = wantedOf(plan);
  const partial =
    lacks.length === 0
      ? undefined
      : body && view.fingerprintOf(body, [...lacks, ...plan.notUnderstood]);
  return {
    ...at,
    kind: "wanted",
    crmCode,
    owner,
    order: orderOf(event),
    leftOut,
    wanted: { ...wanted, lacks, partial },
    body,
  };
}

/** @throws UserError for a record that may be deleted: what follows from it, and from its absence, is not known. */
function deletionOr(event: CrmEvent, place: string, { mapping, now }: PlanningView): CrmEvent {
  const { event: said, unclear } = eventRules(mapping).asDeletion(event, now());
  if (unclear !== undefined) throw unclearGone(place, unclear);
  return said;
}

/** Fields that the snapshot does not carry. What another rule makes of it, or of other fields, is sent. */
function lacksOf(
  event: CrmEvent,
  { payload, status, variant }: Extract<Plan, { kind: "stage" }>,
  { notCarried = {} }: PlanningView,
): string[] {
  const fields = notCarried[splitSubject(event.subject).object.toLowerCase()] ?? {};
  const isKnown = (field: string) =>
    field === "type" || (field === "relationStatus" && saysStatus(event, status));
  const isMade = (field: string) => (payload as Body | undefined)?.[field] !== undefined;
  return Object.keys(fields).filter((field) => {
    // A person's name is made of two others; a default is none of the record.
    const isDefault = fields[field] === true && field !== "name";
    const isOwn = variant !== undefined && FIELDS_OF[variant].has(field) && !isKnown(field);
    return isOwn && (isDefault || !isMade(field));
  });
}

const map = (event: CrmEvent, { changed, lists, mapping }: PlanningView) =>
  mapEvent(mapping, event, event.subject, lists, { changed });

function wantedOf({
  fingerprint,
  notUnderstood,
  payload,
  status,
  variant,
}: Extract<Plan, { kind: "stage" }>): {
  wanted: Omit<WantedRecord, "lacks" | "partial">;
  body: Body | undefined;
} {
  const body = payload && bodyOf(payload, status);
  const ends = status === "terminated" || body?.["relationStatus"] === "terminated";
  return { wanted: { status, fingerprint, notUnderstood, variant, ends }, body };
}

/** A snapshot's order among the events of its record: before any live event of the same time. */
const orderOf = (event: CrmEvent): string => eventOrder({ ...event, time: event.time ?? "" }, 0);

const isLeftOut = ({ reason }: MappingWarning): boolean => reason !== "kept_as_is";

/** Fields of a record that are named, at most. */
const MOST_FIELDS = 20;

/**
 * @param idFrom the field that was said to hold the id.
 * @throws UserError when the crmCode of a record depends on the id that it does not contain.
 */
export async function requireOwnCode(
  { event: value, place }: SnapshotEvent,
  view: PlanningView,
  idFrom: string | undefined,
): Promise<void> {
  const parsed = parseEvent(value, view.now(), recordIds(view.mapping));
  if (!parsed.ok) return;
  const { object } = splitSubject(parsed.event.subject);
  const [one, other] = await Promise.all(
    ["1", "2"].map((id) => map({ ...parsed.event, subject: `${object}/${id}` }, view)),
  );
  if (one?.crmCode === other?.crmCode) return;
  const lacks =
    idFrom === undefined ? "does not contain its id" : `has no id in the field ${idFrom}`;
  const fields = Object.keys(parsed.event.data?.record ?? {});
  const named = [...fields.slice(0, MOST_FIELDS), ...(fields.length > MOST_FIELDS ? ["…"] : [])];
  throw new UserError(
    `${place} ${lacks}, from which the mapping makes the crmCode: name the right field by --id-from. Its fields: ${named.join(", ")}${noRecord(place)}`,
  );
}

/** What to do with a row of a table that is no record. */
export function noRecord(place: string): string {
  const [, row] = /, row (\d+)$/.exec(place) ?? [];
  return row === undefined ? "" : `; or, if the row is no record, give --skip-rows ${row}`;
}

/** @throws UserError when the crmCode of a record depends on who sends its events. */
export async function requireNoSource(
  { event: value }: SnapshotEvent,
  view: PlanningView,
): Promise<void> {
  const parsed = parseEvent(value, view.now(), recordIds(view.mapping));
  if (!parsed.ok || parsed.event.source !== SOURCE) return;
  const [one, other] = await Promise.all(
    ["/1", "/2"].map((source) => map({ ...parsed.event, source }, view)),
  );
  if (one?.crmCode === other?.crmCode) return;
  throw new UserError(
    `the mapping ${view.mapping.name} makes the crmCode from $event.source, which records without events do not have: their crmCodes would not be those of the events`,
  );
}
