/**
 * What one record of the snapshot and one relation of the service are to each other. Pure; it decides
 * by fingerprints what sync/decide.ts decides by bodies.
 */
import type { Variant } from "../../core/service-spec/business-relation.ts";
import type { Known } from "../../core/sync/decide.ts";
import {
  agrees,
  agreesWithRow,
  meaningfulFields,
  SORTED_FIELDS,
} from "../../core/sync/fingerprint.ts";
import { keptFieldsOf, type Keeps } from "../../core/sync/keeps.ts";
import type { LedgerRow } from "../../core/sync/ledger-row.ts";
import { fieldHash, HASH_LENGTH, hashAt } from "../../core/sync/marks.ts";
import type { Change } from "../../core/sync/record.ts";
import type { WantedStatus } from "../../core/sync/mapped.ts";
import { fieldsIn, type RecordRow } from "./work-file.ts";

/** What the CRM says that a relation must be. */
export interface Wanted {
  readonly status: WantedStatus;
  /** Undefined when the event brought no record. */
  readonly fingerprint: string | undefined;
  readonly variant: Variant | undefined;
  /** Whether the relation must be terminated, by the event or by the record itself. */
  readonly ends: boolean;
}

export interface WantedRecord extends Wanted {
  /** Fields that the record has and that were not understood: the service keeps what it has there. */
  readonly notUnderstood: readonly string[];
  /** Fields that the snapshot does not carry: the service keeps what it has there, too, where it has something. */
  readonly lacks: readonly string[];
  /** The fingerprint without these; undefined: there are none. */
  readonly partial: string | undefined;
}

/** `variant`, `nothing_to_restore`: no request can make it so. */
export type Compared =
  | "equal"
  | "missing"
  | "different"
  | "terminated"
  | "ended"
  | "variant"
  | "nothing_to_restore";

/**
 * @param listed undefined: the service does not list it. Its fingerprint leaves out what was not understood.
 */
export function compare(
  wanted: Wanted,
  listed: Pick<Known, "fingerprint" | "terminated" | "variant"> | undefined,
): Compared {
  const { fingerprint, status } = wanted;
  if (listed === undefined) {
    if (status === "terminated") return "equal";
    return fingerprint === undefined ? "nothing_to_restore" : "missing";
  }
  if (fingerprint === undefined) return compareStatus(wanted, listed.terminated);
  if (wanted.variant !== listed.variant) {
    if (status !== "terminated") return "variant";
    return compareStatus(wanted, listed.terminated);
  }
  if (agrees(fingerprint, listed.fingerprint)) return "equal";
  const byStatus = compareStatus(wanted, listed.terminated);
  return byStatus === "equal" ? "different" : byStatus;
}

function compareStatus({ ends }: Wanted, terminated: boolean): "equal" | "terminated" | "ended" {
  if (ends === terminated) return "equal";
  return ends ? "ended" : "terminated";
}

/** What Redis knows of a record that the listing shows to differ. */
export interface LiveState {
  readonly row: LedgerRow | undefined;
  /** The state that waits to be sent. */
  readonly staged: Pick<Change, "fields" | "status"> | undefined;
}

/**
 * `newer`: a live change came after the snapshot, and wins. `waiting`: the change that is needed is on
 * its way. `equal`: it arrived while the service was listed.
 */
export type Resolved = "differs" | "newer" | "waiting" | "equal";

export function resolve(
  wanted: Pick<Wanted, "fingerprint" | "status" | "ends"> & { readonly order: string },
  { row, staged }: LiveState,
): Resolved {
  const { order, fingerprint = "", status } = wanted;
  if (row !== undefined && row.orders.status > order) return "newer";
  if (staged !== undefined) {
    if (staged.status.order > order) return "newer";
    const ends = status === "terminated" && staged.status.is === "terminated";
    if (ends || (fingerprint !== "" && staged.fields?.fingerprint === fingerprint))
      return "waiting";
  }
  if (row?.exists !== true || row.uncertain) return "differs";
  if (fingerprint !== "") return agreesWithRow(fingerprint, row) ? "equal" : "differs";
  return row.terminated === wanted.ends ? "equal" : "differs";
}

/** Stands for a field without a value; no hash looks so. */
const NONE = " ".repeat(HASH_LENGTH);

/**
 * A hash of each field of a body, in the order of SORTED_FIELDS. That two bodies differ is known by their
 * fingerprints: this only names where.
 * @param secret of one comparison
 */
export function digestsOf(
  body: Readonly<Record<string, unknown>>,
  variant: Variant,
  secret: string,
): string {
  const fields = new Map(meaningfulFields(body));
  return SORTED_FIELDS[variant]
    .map((field) => (fields.has(field) ? fieldHash(secret, field, fields.get(field)) : NONE))
    .join("");
}

/** Of the fields that differ, those in which the CRM has no value: the service would lose its own. */
export function emptiedIn({
  digests,
  fields,
  variant,
}: Pick<RecordRow, "digests" | "fields" | "variant">): string[] {
  if (digests === null || variant === null) return [];
  const names = SORTED_FIELDS[variant];
  const isEmpty = (field: string) => hashAt(digests, names.indexOf(field)) === NONE;
  return fieldsIn(fields).filter((field) => field !== "type" && isEmpty(field));
}

/** Names of the fields that differ between two bodies of one variant, and that a PUT would change. */
export function changedFields(
  variant: Variant,
  before: string,
  after: string,
  keeps: Keeps,
): string[] {
  const kept = keptFieldsOf(variant, keeps);
  return SORTED_FIELDS[variant].filter((field, index) => {
    const was = hashAt(before, index);
    if (was === hashAt(after, index)) return false;
    const keep = kept?.[field];
    return keep === undefined || (keep === "ifPresent" && was === NONE);
  });
}
