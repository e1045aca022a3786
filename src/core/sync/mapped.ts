import type { CrmEvent } from "../event/crm-event.ts";
import type { Problem } from "../event/problem.ts";

/** Why a mapping leaves a record out, with the text that commands show. */
export const IGNORE_REASONS = {
  object: "the mapping lists its object under `ignore`",
  when: "no rule's `when` is true for it",
  when_undecided:
    "a rule's `when` is neither true nor false for it, because a field is missing; that counts as false",
  module: "the mapping's module returned nothing for it",
} as const;
export type IgnoreReason = keyof typeof IGNORE_REASONS;

/** Another object of the CRM that belongs to a record (`with` in a mapping file). */
export interface Relation {
  /** The CRM's objects to which it belongs, as the mapping file writes them. */
  readonly owners: readonly string[];
  /** The name under which it stands in the record. */
  readonly name: string;
  readonly object: string;
  /** A list of records, instead of one. */
  readonly many: boolean;
  /** Path of the owner's field that holds the related record's id. */
  readonly by: string | undefined;
  /** Path of the related record's field that holds the owner's id. */
  readonly of: string | undefined;
  /** A change of the related record is a change of its owner. */
  readonly isPart: boolean;
}

/** What is read together with the records of an object, whichever of its rules applies. */
export function relationsOf(
  relations: readonly Relation[] = [],
  object: string,
): Iterable<Relation> {
  const own = relations.filter(({ owners }) => owners.some((owner) => isSame(owner, object)));
  return new Map(own.map((relation) => [relation.name, relation])).values();
}

/** Whether records of an object are only whole with those of others: what comes without them must be read. */
export const needsRelated = (
  { relations }: { readonly relations?: readonly Relation[] },
  object: string,
): boolean => [...relationsOf(relations, object)].length > 0;

/** The relations in which a change of this object is a change of others. */
export const partsOf = (relations: readonly Relation[] = [], object: string): Relation[] =>
  relations.filter((relation) => relation.isPart && isSame(relation.object, object));

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** One record that an event is about: its own subject, or one that was merged into it. */
export interface RecordChange {
  readonly event: {
    readonly type: string;
    readonly subject: string;
    readonly data?: Pick<NonNullable<CrmEvent["data"]>, "record" | "fetch"> | undefined;
  };
  readonly subject: string;
  /** What a later event of the record demands, which brought no fields. */
  readonly status?: Exclude<WantedStatus, "mapped"> | undefined;
  /** The field by which the record says, in no known way, whether it is deleted. */
  readonly unclear?: Problem | undefined;
}

/** Whether the event brought the record itself. */
export const hasRecord = ({ event, subject }: RecordChange): boolean =>
  subject === event.subject && event.data?.record !== undefined;

/** What a mapping makes of one record of an event. */
export type Mapped =
  | {
      readonly kind: "mapped";
      readonly crmCode: string;
      /** Absent when the event brought no record. */
      readonly candidate: Readonly<Record<string, unknown>> | undefined;
      /** Fields of which a value was left out because the tenant's lists do not allow it. */
      readonly leftOutByLists?: readonly string[];
      /** Fields of which it left out a value that it could not use, for whatever reason. */
      readonly sentWithout?: readonly string[];
      /** Fields that it left out because it did not understand what the record has there: that is not "empty". */
      readonly notUnderstood?: readonly string[];
      /** Of the record in the CRM: who can correct it. */
      readonly owner?: string;
      /** Fields that the mapping left out or changed, each with the reason, for its history. */
      readonly warned?: readonly { readonly field: string; readonly reason: string }[];
    }
  /** The mapping says that the service does not need this record. */
  | {
      readonly kind: "ignored";
      readonly reason: IgnoreReason;
      /** Of `when` and `when_undecided`: points to the rules that have decided it (mapping/whens.ts). */
      readonly whens?: string;
      /** Absent where it cannot be made. */
      readonly crmCode?: string | undefined;
      /** What becomes of a relation that the service has from an earlier time. */
      readonly onLeave?: "keep" | "terminate" | undefined;
    }
  | {
      readonly kind: "unmappable";
      readonly crmCode: string | undefined;
      readonly owner?: string;
      readonly problems: readonly Problem[];
    };

/**
 * The most characters that one field may have. Our own limit: the spec sets none for most texts,
 * but every server limits bodies, and a body that is too large would fail on each try.
 */
export const FIELD_MAX_LENGTH = 64 * 1024;

/** The status that the relation must have: the payload's own (`mapped`), or one that an event forces. */
export type WantedStatus = "mapped" | "terminated" | "active";
