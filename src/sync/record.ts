/** What the reducers share. Pure. */
import { hash } from "node:crypto";
import { splitSubject } from "../event/crm-event.ts";
import type { KnownRecord, Now, Staged } from "./staged-state.ts";
import { NO_ORDERS, rowWithoutProof, type LedgerRow, type Orders } from "./ledger-row.ts";

/** After this long a relation is read once more when an earlier request may have taken effect since, ms. */
export const VERIFY_AFTER_MS = 300_000;

export const ordersOf = ({
  fields,
  status,
  unusable = "",
}: Pick<Staged, "fields" | "status" | "unusable">): Orders => ({
  fields: fields?.order ?? unusable,
  status: status.order,
  is: status.is,
});

/** The newest of what waits and of what was settled, register by register. */
export function newestOrders({ row, staged }: Pick<KnownRecord, "row" | "staged">): Orders {
  const settled = row?.orders ?? NO_ORDERS;
  if (staged === undefined || staged.phase === "left") return settled;
  const waiting = ordersOf(staged);
  const status = waiting.status >= settled.status ? waiting : settled;
  return { ...status, fields: later(waiting.fields, settled.fields) };
}

export const later = (a: string, b: string): string => (a > b ? a : b);

/** Whether the newest record that an event brought is one that could not be used: as a dead letter it tells the most. */
export const hasUnusedRecord = ({ fields, status }: Pick<Staged, "fields" | "status">): boolean =>
  status.hasRecord === true && (status.eventOrder ?? status.order) > (fields?.order ?? "");

/** What is proven of the relation, by its row or by the list that did not show it. */
export function provenOf(row: LedgerRow | undefined, warm: boolean): LedgerRow {
  if (row === undefined) return rowWithoutProof(warm);
  if (row.exists !== undefined || row.uncertain || !warm) return row;
  return { ...row, exists: false, byList: true };
}

/** Names a record of the CRM, and does not tell it. A CRM may write the name of an object in several ways. */
export function writerOf(subject: string): string {
  const { object, recordId } = splitSubject(subject);
  return hash("sha256", `${object.toLowerCase()}/${recordId}`, "base64url").slice(0, 16);
}

/** Records of the CRM that share a relation: which of them may end it, only a person knows. */
const SEVERAL = "several";

/** Which record of the CRM has written a relation, once this one has, too. */
export const writerAfter = (
  before: string | undefined,
  own: string | undefined,
): string | undefined =>
  before === undefined || own === undefined || before === own ? (own ?? before) : SEVERAL;

/** When the event of an order happened, ms; NaN for a text that is none. */
export const timeOfOrder = (order: string): number => Date.parse(order.split("\t")[0] ?? "");

/** Whether an event would be superseded: `fields` "" when it brings none. */
export const isSuperseded = (event: Pick<Orders, "fields" | "status">, newest: Orders): boolean =>
  event.fields === "" ? event.status < newest.status : event.fields < newest.fields;

/** Whether a change waits that no worker has taken. */
export const isPending = (staged: Staged | undefined): staged is Staged =>
  staged !== undefined &&
  (staged.phase === "waits" || staged.phase === "held") &&
  staged.version !== staged.taken?.version;

/** The change that waits to be sent, or for a person; undefined: none does. */
export const waitingIn = (staged: Staged | undefined): Staged | undefined =>
  staged?.phase === "waits" || staged?.phase === "held" ? staged : undefined;

/** Until when no worker may take the record, ms; undefined when one may. */
export const busyUntil = ({ heldUntil }: Staged, now: number): number | undefined =>
  heldUntil !== undefined && heldUntil > now ? heldUntil : undefined;

/**
 * What stays of a state that is dropped: that a request may still arrive, and until when no worker may take the
 * record. Undefined: nothing.
 */
export function leftOf(staged: Staged, { now }: Now, verifyMs: number): Staged | undefined {
  const isLate = staged.late === true || staged.taken !== undefined;
  const heldUntil = busyUntil(staged, now);
  if (!isLate && heldUntil === undefined) return undefined;
  return {
    version: staged.version,
    phase: "left",
    lane: staged.lane,
    due: Math.max(isLate ? now + verifyMs : now, heldUntil ?? 0),
    since: staged.since,
    time: staged.time,
    firstTime: staged.firstTime,
    fields: undefined,
    status: { order: "", is: "mapped" },
    ...(isLate && { late: true }),
    heldUntil,
  };
}
