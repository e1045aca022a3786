/** The dead letter of a record: which events it knows of, by the same two registers. Pure. */
import type { DeadReason } from "./dead-letter.ts";
import { hasUnusedRecord, isPending, later, newestOrders } from "./known.ts";
import type { KnownRecord, LetterMark } from "./record.ts";
import type { WantedStatus } from "./mapped.ts";

export interface LetterToStore {
  /** Of the newest event; undefined: unknown. */
  readonly order: string | undefined;
  readonly is: WantedStatus;
  readonly event: string;
  /** Whether the event brought fields; undefined: unknown. */
  readonly hasFields: boolean | undefined;
  readonly reason: DeadReason;
}

/** `keepsEvent`, `keepsDetails`: of the letter that was there, because its fields are the newest. */
export type StoredLetter =
  | { readonly kind: "superseded" }
  | {
      readonly kind: "stored";
      readonly mark: LetterMark;
      readonly keepsEvent: boolean;
      readonly keepsDetails: boolean;
    };

const SUPERSEDED = { kind: "superseded" } as const;

/** Merges a letter with the one that the record has, or finds that something newer is known. */
export function storeLetter(letter: LetterToStore, known: KnownRecord): StoredLetter {
  const fields = letter.hasFields === true ? letter.event : "";
  const own: LetterMark = {
    order: letter.order ?? "",
    is: letter.is,
    event: letter.event,
    fields: letter.hasFields === undefined ? undefined : fields,
    reason: letter.reason,
  };
  const stored = { kind: "stored", keepsEvent: false, keepsDetails: false } as const;
  if (own.order === "") return { ...stored, mark: own };
  if (waitsAlready(own.order, fields, known)) return SUPERSEDED;
  const newest = newestOrders(known);
  const hasNewestFields = fields !== "" && fields >= newest.fields;
  let mark = own;
  if (own.order < newest.status) {
    // What is wrong with the fields of a record that has ended does not matter.
    if (!hasNewestFields || hasEnded(known)) return SUPERSEDED;
    mark = { ...own, order: own.event, is: "mapped" };
  } else if (own.order === newest.status && fields !== "" && !hasNewestFields) return SUPERSEDED;
  const before = known.letter;
  if (before === undefined || before.order === "") return { ...stored, mark };
  if (mark.order < before.order) {
    const isStatusOnly = before.fields !== undefined && before.is !== "mapped";
    if (!hasNewestFields || !isStatusOnly || fields < (before.fields ?? "")) return SUPERSEDED;
    return { ...stored, mark: { ...mark, order: before.order, is: before.is } };
  }
  const keepsFields =
    before.fields !== undefined &&
    mark.is !== "mapped" &&
    fields < before.fields &&
    before.fields >= newest.fields;
  if (!keepsFields) return { ...stored, mark };
  // What is wrong with the fields is still wrong, but keeps no relation from being terminated.
  const keepsDetails = mark.is !== "terminated";
  const { event, reason } = before;
  return {
    kind: "stored",
    mark: { ...mark, event, fields: before.fields, ...(keepsDetails && { reason }) },
    keepsEvent: true,
    keepsDetails,
  };
}

/** A state waits that has the status and the fields of this letter, or newer ones. */
function waitsAlready(order: string, fields: string, { staged }: KnownRecord): boolean {
  if (!isPending(staged) || staged.status.order < order) return false;
  const waiting = staged.fields?.order ?? "";
  const bringsThem = staged.fields !== undefined && !hasUnusedRecord(staged);
  return fields === "" || fields < waiting || (fields === waiting && bringsThem);
}

function hasEnded({ row, staged }: KnownRecord): boolean {
  if (row === undefined || row.uncertain || row.orders.is !== "terminated") return false;
  const isNewest = row.orders.status === later(row.orders.status, staged?.status.order ?? "");
  return isNewest && (row.exists === false || row.terminated);
}

/**
 * What becomes of a letter when an event of its record is staged.
 * @param ownFields order of the fields that the event itself brings; "": none
 * @param newestFields of what was known before
 */
export function letterAfter(
  letter: LetterMark | undefined,
  {
    order,
    is,
    ownFields,
    newestFields,
  }: Readonly<Record<"order" | "ownFields" | "newestFields", string>> & {
    readonly is: WantedStatus;
  },
): LetterMark | undefined {
  // A newer letter tells what is wrong with the record now. One with newer fields has the only copy of them.
  if (letter === undefined || order < letter.order) return letter;
  const fields = letter.fields ?? "";
  if (ownFields >= fields || fields < newestFields) return undefined;
  if (letter.event === letter.order || letter.is === is || letter.order >= order) return letter;
  return { ...letter, order: fields, event: fields, is: "mapped" };
}

/**
 * Whether a letter stays when the service has this state.
 * @param fields order of those that it was sent, "": none; or `ended`: the relation has ended, they do not matter.
 */
export function staysAfter(
  letter: LetterMark,
  { status, fields }: { readonly status: string; readonly fields: string },
): boolean {
  if (status < letter.order) return true;
  return fields !== "ended" && fields < (letter.fields ?? letter.order);
}
