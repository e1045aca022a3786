/** The texts of a record: personal data, sealed while it waits in Redis. */
import {
  hasUnusedRecord,
  type Staged,
  type StateToStage,
  type TakenState,
} from "../sync/record.ts";
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

/** The sealed texts of a state, and a state with other ones in their places. */
export function textsOf({ about, fields, found, kept, status }: Staged): string[] {
  const texts = [about, fields?.payload, fields?.event, status.event, found, kept?.values];
  return texts.filter((text) => text !== undefined);
}

export function withTexts(staged: Staged, other: (text: string) => string): Staged {
  const { about, fields, found, kept, status } = staged;
  return {
    ...staged,
    ...(about !== undefined && { about: other(about) }),
    ...(fields && {
      fields: { ...fields, payload: other(fields.payload), event: other(fields.event) },
    }),
    status: { ...status, ...(status.event !== undefined && { event: other(status.event) }) },
    ...(found !== undefined && { found: other(found) }),
    ...(kept && { kept: { ...kept, values: other(kept.values) } }),
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
  { fields, status }: Pick<Staged, "fields" | "status">,
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
  staged: Staged,
  crmCode: string,
  sealing: Sealing,
  now: number,
): Promise<Omit<TakenState, "crmCode" | "keeps" | "orders" | "row" | "token">> {
  const { about, counts, fields, found, kept, status } = staged;
  const isFound = fields === undefined || status.is === "terminated";
  const ofService = isFound ? found : undefined;
  const payload = ofService ?? fields?.payload;
  const isFresh = kept && (now - kept.at <= KEPT_FOR_MS || (counts?.reads ?? 0) >= MOST_READS);
  return {
    ...(await openEvents(staged, crmCode, sealing)),
    payload: payload && (await sealing.open(payload, crmCode)),
    kept: isFresh ? await sealing.open(kept.values, crmCode) : undefined,
    status: status.is,
    notUnderstood: (ofService === undefined ? fields?.notUnderstood : undefined) ?? [],
    variant: fields?.variant,
    lane: staged.lane,
    firstTime: staged.firstTime,
    counts: {
      tries: 0,
      heals: 0,
      forbidden: 0,
      unconfirmed: 0,
      reads: 0,
      refused: 0,
      ...counts,
    },
    firstTryAt: staged.firstTryAt,
    doubt: staged.doubt,
    late: staged.late === true,
    approved: staged.approved === true,
    trace: staged.trace,
    owner: about && (JSON.parse(await sealing.open(about, crmCode)) as About).owner,
  };
}
