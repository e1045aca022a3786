/** The entries of a plan, from a finished comparison. */
import { keptFieldsOf, type Keeps } from "../sync/keeps.ts";
import type { PlanEntry } from "./plan-file.ts";
import { fieldsIn, type RecordRow, type WorkFile } from "./work-file.ts";

/** In the order of the snapshot, so that carrying them out reads it once; terminations without a record last. */
export function* planEntries(
  work: WorkFile,
  terminateMissing: boolean,
  keeps: Keeps,
): Generator<PlanEntry> {
  for (const row of work.planned()) {
    const { code, fingerprint, kind, position, unclear, was } = row;
    if (position === null && !terminateMissing) return;
    yield {
      code,
      kind: kind as PlanEntry["kind"],
      position,
      fields: position === null ? ["relationStatus"] : fieldsIn(row.fields),
      ...(unclear !== null && { keeps: fieldsIn(unclear) }),
      was: was ?? "",
      wants: fingerprint ?? "",
      requests: requestsOf(row, keeps),
    };
  }
}

/** One to read the relation, one to write it. */
const WITH_READ = 2;

/** A termination without the record's fields reads the relation first, and so does an update that keeps fields. */
function requestsOf({ fingerprint, kind, unclear, variant }: RecordRow, keeps: Keeps): number {
  const isUpdate = kind !== "missing";
  const keepsFields = unclear !== null || keptFieldsOf(variant ?? undefined, keeps) !== undefined;
  return fingerprint === null || (isUpdate && keepsFields) ? WITH_READ : 1;
}
