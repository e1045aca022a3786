/** The texts of a record: personal data, sealed while it waits in Redis. */
import { hasUnusedRecord } from "../sync/known.ts";
import type { Change } from "../sync/record.ts";
import type { TakenState } from "../sync/run.ts";
import type { StateToStage } from "../sync/stage.ts";
import type { About } from "../sync/told.ts";
import type { Sealing } from "./sealing.ts";

/**
 * Values of kept fields that are older than this, ms, are read again before they are sent: somebody may have
 * edited them since. No change reads them more often than MOST_READS: it must also end when permits are rare.
 */
const KEPT_FOR_MS = 60_000;
const MOST_READS = 2;

type Texts = Pick<StateToStage, "crmCode" | "event" | "payload">;

export async function sealTexts(
  { crmCode, event, payload }: Texts,
  sealing: Sealing,
): Promise<Pick<Texts, "event" | "payload">> {
  return {
    event: await sealing.seal(event, crmCode),
    payload: payload && (await sealing.seal(payload, crmCode)),
  };
}

/** The sealed texts of a change, and a change with other ones in their places. */
export function textsOf(change: Change): string[] {
  const texts: string[] = [];
  withTexts(change, (text) => {
    texts.push(text);
    return text;
  });
  return texts;
}

export function withTexts(change: Change, other: (text: string) => string): Change {
  const { about, fields, read, status } = change;
  return {
    ...change,
    ...(about !== undefined && { about: other(about) }),
    ...(fields && {
      fields: { ...fields, payload: other(fields.payload), event: other(fields.event) },
    }),
    status: { ...status, ...(status.event !== undefined && { event: other(status.event) }) },
    ...(read && {
      read: {
        ...read,
        ...(read.found !== undefined && { found: other(read.found) }),
        ...(read.kept !== undefined && { kept: other(read.kept) }),
      },
    }),
  };
}

export interface OpenEvents {
  /** The event that brought the fields, or the newest one where these are not an event's. */
  readonly event: string;
  readonly eventOrder: string;
  readonly newestEvent: string;
}

/** @throws UnknownKey, DamagedValue */
export async function openEvents(
  { fields, status }: Pick<Change, "fields" | "status">,
  crmCode: string,
  sealing: Sealing,
): Promise<OpenEvents> {
  const ofFields = fields && (await sealing.open(fields.event, crmCode));
  const newest = status.event === undefined ? ofFields : await sealing.open(status.event, crmCode);
  const isNewest = ofFields === undefined || hasUnusedRecord({ fields, status });
  return {
    event: (isNewest ? newest : ofFields) ?? "{}",
    eventOrder: isNewest ? (status.eventOrder ?? status.order) : (fields?.order ?? status.order),
    newestEvent: newest ?? "{}",
  };
}

/** @throws UnknownKey, DamagedValue */
export async function openState(
  change: Change,
  crmCode: string,
  sealing: Sealing,
  now: number,
): Promise<Omit<TakenState, "crmCode" | "keeps" | "orders" | "row" | "token">> {
  const { about, fields, lane, read = {}, status, tries } = change;
  const { found, kept, keptAt = 0 } = read;
  const isFound = fields === undefined || status.is === "terminated";
  const ofService = isFound ? found : undefined;
  const payload = ofService ?? fields?.payload;
  const isFresh = now - keptAt <= KEPT_FOR_MS || (tries?.reads ?? 0) >= MOST_READS;
  return {
    ...(await openEvents(change, crmCode, sealing)),
    payload: payload && (await sealing.open(payload, crmCode)),
    kept: kept && isFresh ? await sealing.open(kept, crmCode) : undefined,
    status: status.is,
    notUnderstood: (ofService === undefined ? fields?.notUnderstood : undefined) ?? [],
    lane,
    change,
    owner: about && (JSON.parse(await sealing.open(about, crmCode)) as About).owner,
  };
}
