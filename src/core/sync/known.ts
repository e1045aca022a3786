/** What the reducers share: the orders of a record, what is proven of it, and which requests may still take effect. */
import { hash } from "node:crypto";
import { splitSubject } from "../event/crm-event.ts";
import { NO_ORDERS, rowWithoutProof, type LedgerRow, type Orders } from "./ledger-row.ts";
import type { Change, KnownRecord } from "./record.ts";

export const ordersOf = ({ fields, status }: Pick<Change, "fields" | "status">): Orders => ({
  fields: fields?.order ?? status.unusable ?? "",
  status: status.order,
  is: status.is,
});

/** The newest of what waits and of what was settled, register by register. */
export function newestOrders({ row, staged }: Pick<KnownRecord, "row" | "staged">): Orders {
  const settled = row?.orders ?? NO_ORDERS;
  if (staged === undefined) return settled;
  const waiting = ordersOf(staged);
  const status = waiting.status >= settled.status ? waiting : settled;
  return { ...status, fields: later(waiting.fields, settled.fields) };
}

/** Whether the event that a worker has is the one that brought the fields. */
export const bringsFields = (state: {
  readonly eventOrder: string;
  readonly orders: Pick<Orders, "fields">;
}): boolean => state.eventOrder === state.orders.fields;

export const later = (a: string, b: string): string => (a > b ? a : b);

/** Whether the newest record that an event brought is one that could not be used: as a dead letter it tells the most. */
export const hasUnusedRecord = ({ fields, status }: Pick<Change, "fields" | "status">): boolean =>
  status.hasRecord === true && (status.eventOrder ?? status.order) > (fields?.order ?? "");

/** What is proven of the relation, by its row or by the list that did not show it. */
export function provenOf(row: LedgerRow | undefined, warm: boolean): LedgerRow {
  if (row === undefined) return rowWithoutProof(warm);
  if (row.exists !== undefined || row.uncertain || !warm) return row;
  return { ...row, exists: false, byList: true };
}

/** By what it is decided what would become of a change. */
export interface ProvenRecord {
  readonly row: LedgerRow;
  /** Of what waits and what was settled. */
  readonly newest: Orders;
}

export const provenIn = (
  known: Pick<KnownRecord, "row" | "staged"> & { readonly warm: boolean },
): ProvenRecord => ({ row: provenOf(known.row, known.warm), newest: newestOrders(known) });

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

/** Whether crmsync has written the relation, or settled an event of it: no list of the service brings these. */
export const isOurs = (row: Pick<LedgerRow, "orders" | "writer"> | undefined): boolean =>
  row?.writer !== undefined || (row?.orders.status ?? "") !== "";

/** When the event of an order happened, ms; NaN for a text that is none. */
export const timeOfOrder = (order: string): number => Date.parse(order.split("\t")[0] ?? "");

/** Whether an event would be superseded: `fields` "" when it brings none. */
export const isSuperseded = (event: Pick<Orders, "fields" | "status">, newest: Orders): boolean =>
  event.fields === "" ? event.status < newest.status : event.fields < newest.fields;

/** Whether the change is on the service, and only read once more. */
export const isSent = ({ confirm }: Pick<Change, "confirm">): boolean =>
  confirm?.why === "late" || confirm?.why === "stored";

/** The change that is to be sent, or waits for a person; undefined: none does. */
export const waitingIn = (staged: Change | undefined): Change | undefined =>
  staged === undefined || isSent(staged) ? undefined : staged;

/** When a change that is on the service is read once more, ms; undefined: none is. */
export const readAgainAt = (staged: Change | undefined): number | undefined =>
  staged !== undefined && isSent(staged) ? staged.due : undefined;

/** Whether a change waits that no worker has taken. */
export function isPending(staged: Change | undefined): staged is Change {
  const waits = waitingIn(staged);
  return waits !== undefined && waits.version !== waits.taken?.version;
}

/** Whether a change waits because a try of it has failed. */
export const isToRetry = (staged: Change | undefined): boolean =>
  staged?.taken === undefined && staged?.tries?.since !== undefined;

/** Until when no worker may take the record, because a request may be under way, ms; undefined: one may. */
export function busyUntil(
  { row, staged }: Pick<KnownRecord, "row" | "staged">,
  now: number,
): number | undefined {
  const until = Math.max(row?.openUntil ?? 0, staged?.taken?.until ?? 0);
  return until > now ? until : undefined;
}

/** A request may still take effect: nothing that is proven before that is believed for good. */
export const opened = (row: LedgerRow | undefined, until: number): LedgerRow => ({
  ...(row ?? rowWithoutProof(false)),
  uncertain: true,
  written: undefined,
  openUntil: Math.max(row?.openUntil ?? 0, until),
});

/** The record without its change. What its worker may have sent is still open. */
export const left = (known: KnownRecord): KnownRecord => ({
  ...known,
  row: known.staged?.taken === undefined ? known.row : opened(known.row, known.staged.taken.until),
  staged: undefined,
});
