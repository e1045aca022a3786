/** The entries of a plan, from a finished comparison. */
import type { Variant } from "../service-spec/business-relation.ts";
import { keptFieldsOf, type Keeps } from "../sync/keeps.ts";
import type { PlanEntry } from "./plan-file.ts";
import { fieldsIn, PLANNED, type WorkFile } from "./work-file.ts";

/** In the order of the snapshot, so that carrying them out reads it once; terminations without a record last. */
export function* planEntries(
  work: WorkFile,
  terminateMissing: boolean,
  keeps: Keeps,
): Generator<PlanEntry> {
  const sql = `SELECT code, kind, position, fields, was, fingerprint, unclear, variant FROM records
    WHERE kind IN (${PLANNED}) ORDER BY position`;
  for (const row of work.all<Row>(sql)) {
    yield {
      code: row.code,
      kind: row.kind,
      position: row.position,
      fields: fieldsIn(row.fields),
      ...(row.unclear !== null && { keeps: fieldsIn(row.unclear) }),
      was: row.was ?? "",
      wants: row.fingerprint ?? "",
      requests: requestsOf(row, keeps),
    };
  }
  if (!terminateMissing) return;
  const extras = "SELECT code, was FROM extras WHERE kind = 'extra' ORDER BY code";
  for (const { code, was } of work.all<{ code: string; was: string }>(extras)) {
    yield {
      code,
      kind: "extra",
      position: null,
      fields: ["relationStatus"],
      was,
      wants: "",
      requests: WITH_READ,
    };
  }
}

interface Row {
  readonly code: string;
  readonly kind: PlanEntry["kind"];
  readonly position: number;
  readonly fields: string | null;
  readonly was: string | null;
  readonly fingerprint: string | null;
  readonly unclear: string | null;
  readonly variant: Variant | null;
}

/** One to read the relation, one to write it. */
const WITH_READ = 2;

/** A termination without the record's fields reads the relation first, and so does an update that keeps fields. */
function requestsOf({ fingerprint, kind, unclear, variant }: Row, keeps: Keeps): number {
  const isUpdate = kind !== "missing";
  const keepsFields = unclear !== null || keptFieldsOf(variant ?? undefined, keeps) !== undefined;
  return fingerprint === null || (isUpdate && keepsFields) ? WITH_READ : 1;
}

export function requestsFor(work: WorkFile, terminateMissing: boolean, keeps: Keeps): number {
  let requests = 0;
  for (const entry of planEntries(work, terminateMissing, keeps)) requests += entry.requests;
  return requests;
}
