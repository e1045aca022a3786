/**
 * What a read says: of the fields that are to be sent back, and of a write that was answered. A copy of the service may
 * lag behind, a value may be shown in another form, or hidden; and a service may say that it has stored what it has not.
 */
import { FIELDS_OF, REQUIRED_OF, variantOf } from "../service-spec/business-relation.ts";
import { bodyOf, type Sendable } from "./decide.ts";
import { agrees, meaningfulFields } from "./fingerprint.ts";
import { keptFieldsOf, keptIn, type Keeps } from "./keeps.ts";
import { isSent } from "./known.ts";
import { rowOf, type LedgerRow } from "./ledger-row.ts";
import { changeBetween, isStillAsBefore } from "./marks.ts";
import type { Confirm } from "./record.ts";
import { doubtAgainAt, retryDelay } from "./retry.ts";
import type { Settlement, TakenState } from "./run.ts";
import {
  again,
  done,
  giveUp,
  partialOf,
  reads,
  type Body,
  type SettleContext,
  type Settled,
} from "./settled.ts";
import { withoutUnlisted } from "./validate.ts";

/** How often a write is sent again that was accepted without proof and is not there. */
const MAX_UNCONFIRMED = 5;
/** The relation was read. */
export function found(
  body: Body,
  sent: Sendable,
  state: TakenState,
  context: SettleContext,
): Settled {
  const { change, notUnderstood, row: known, status } = state;
  const { fingerprintOf, keeps, now } = context;
  const { confirm } = change;
  const into = sent.kind === "fetch" ? sent.into : undefined;
  const seen = { ...rowOf(body, now, fingerprintOf), orders: known.orders };
  const isProven = agrees(known.fingerprint, seen.fingerprint);
  const row = { ...seen, written: isProven ? known.written : undefined };
  const isWanted =
    into !== undefined &&
    agrees(fingerprintOf(into, notUnderstood), fingerprintOf(body, notUnderstood));
  if (confirm !== undefined && isSent(change)) return confirmed(body, confirm, state, context);
  const appeared = known.exists === true ? "updated" : "created";
  if (confirm?.why === "accepted" || confirm?.why === "renamed") {
    if (isWanted || (into !== undefined && differing(into, body, keeps).length === 0)) {
      const has = isWanted ? body : (into ?? body);
      const { end, settlement } = done(appeared, has, state, context);
      return { settlement: { ...settlement, confirmed: confirm.isOpen !== true }, end };
    }
    if (confirm.why === "renamed") return renamed("unknown");
    if (into !== undefined) return unconfirmed(row, state, context);
  }
  if (contradicts(row, body, state, context)) {
    const isAgain = confirm?.why === "lagging";
    const since = isAgain ? confirm.since : now;
    const retryAt = doubtAgainAt(since, now, context.retry);
    // What a list or another read has proved is weaker than our own write: one repetition is enough.
    const isDoubted = known.written === true ? retryAt !== undefined : !isAgain && !isWanted;
    if (isDoubted) return again("lagging", { ...reads("lagging", context, since), retryAt });
    if (known.written === true && status === "terminated")
      return again("differs", { held: { why: "differs" } }, "held");
  }
  if (isWanted) {
    // An earlier write, which had no answer, was applied.
    if (known.uncertain) return done(appeared, body, state, context);
    const settled = {
      ...row,
      ...partialOf(body, notUnderstood, fingerprintOf),
      orders: state.orders,
    };
    const reason = status === "terminated" ? "nothing_to_terminate" : "unchanged";
    return {
      settlement: { row: settled, finished: true },
      end: { finished: true, outcome: "skipped", reason },
    };
  }
  return again("fetched", { row, ...toSendBack(body, into, state, context) });
}

/** What the next run sends back: the service's own fields where no event brought any, and the kept ones. */
function toSendBack(
  body: Body,
  into: Body | undefined,
  { status }: TakenState,
  { keeps, lists }: SettleContext,
): Partial<Settlement> {
  const kept = keptIn(body, into, keeps);
  const own = ownFields(body);
  // A relation must end even if the tenant's lists no longer allow a value that it has.
  const isEnd = status === "terminated" && lists !== undefined;
  const payload = isEnd ? withoutUnlisted(own, lists) : own;
  return {
    ...(into === undefined && { payload: JSON.stringify(payload) }),
    ...(kept !== undefined && { kept: JSON.stringify(kept), counts: ["reads"] }),
  };
}

/** A change that is on the service was read once more. @param body undefined: the service does not have the relation */
export function confirmed(
  body: Body | undefined,
  confirm: Confirm,
  state: TakenState,
  context: SettleContext,
): Settled {
  const { row: known } = state;
  const { fingerprintOf, now, retry } = context;
  const isSame =
    body === undefined
      ? known.exists === false
      : known.exists === true && agrees(known.fingerprint, fingerprintOf(body));
  const isSpotCheck = confirm.why === "stored";
  if (isSame || (isSpotCheck && body !== undefined && !wasNotStored(body, confirm, state, context)))
    return {
      settlement: {
        row: { ...known, uncertain: false, provedAt: now },
        finished: true,
        confirmed: true,
      },
      end: { finished: true, reason: "confirmed" },
    };
  const retryAt = isSpotCheck ? doubtAgainAt(confirm.since, now, retry) : undefined;
  if (retryAt !== undefined) return again("lagging", { confirm, retryAt });
  // What the next update changes is not known.
  const row = { ...known, uncertain: true, marks: undefined, written: undefined };
  return again(isSpotCheck ? "not_stored" : "overwritten", { row, confirmed: true });
}

/** What was read is not the relation of our crmCode. A write may have changed the one that the service names. */
export function renamed(row: Settlement["row"]): Settled {
  const rule =
    "the service names the crmCode otherwise (without blanks, or in another case or Unicode form): it would change another relation";
  return giveUp("contradiction", row, rule, "the crmCode", { field: "crmCode" });
}

/** The write is sent again: reading did not show what the service had accepted. */
export function unconfirmed(
  row: Settlement["row"],
  { change }: TakenState,
  { now, retry }: SettleContext,
): Settled {
  const { unconfirmed: before = 0 } = change.tries ?? {};
  if (before >= MAX_UNCONFIRMED) {
    const rule = `the service accepted the change ${before + 1} times, and does not have it`;
    return giveUp("contradiction", row, rule, "the service", { openMs: 0 });
  }
  const retryAt = now + retryDelay(before + 1, retry.baseMs, retry.random);
  const how = { row, counts: ["failed", "unconfirmed"], openMs: 0, retryAt } as const;
  return again("unconfirmed", how, "unavailable");
}

/** Whether a read shows, outside of the fields that this change keeps, something else than was proven. */
function contradicts(
  seen: LedgerRow,
  body: Body,
  { notUnderstood, row: known }: TakenState,
  { fingerprintOf, keeps }: Pick<SettleContext, "fingerprintOf" | "keeps">,
): boolean {
  // While an earlier request is open, the answer to a later write is still the better proof.
  if (known.uncertain && known.written !== true) return false;
  if (known.exists !== true || known.fingerprint === undefined) return false;
  if (agrees(known.fingerprint, seen.fingerprint)) return false;
  if (agrees(known.partial, fingerprintOf(body, notUnderstood))) return false;
  const isKept = keptNames(body, keeps);
  const { changed } = changeBetween(known, seen) ?? {};
  return changed === undefined || changed.some((field) => !isKept.has(field));
}

const keptNames = (body: Body, keeps: Keeps): ReadonlySet<string> =>
  new Set(Object.keys(keptFieldsOf(variantOf(body["type"]), keeps) ?? {}));

/** The fields, but for kept ones, in which two bodies say something else. A service may have a form of its own for a value. */
function differing(sent: Body, found: Body, keeps: Keeps): string[] {
  const [is, was] = [sent, found].map((body) => new Map(meaningfulFields(body)));
  const isKept = keptNames(sent, keeps);
  const fields = [...new Set([...(is?.keys() ?? []), ...(was?.keys() ?? [])])];
  return fields.filter(
    (field) => !isKept.has(field) && plain(is?.get(field)) !== plain(was?.get(field)),
  );
}

/** Letters and digits alone: neither blanks nor signs, nor their case. */
const plain = (value: unknown): string =>
  (typeof value === "string" ? value : JSON.stringify(value ?? ""))
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();

/** Whether a field that was written still is as it was before the write. */
function wasNotStored(
  body: Body,
  { before }: Confirm,
  { payload, status }: TakenState,
  { fingerprintOf, keeps }: Pick<SettleContext, "fingerprintOf" | "keeps">,
): boolean {
  if (before === undefined || payload === undefined) return false;
  const sent = bodyOf(JSON.parse(payload) as Body, status);
  return isStillAsBefore(before, rowOf(body, 0, fingerprintOf), differing(sent, body, keeps));
}

/** The fields that a client may send back (spec); the service may return more. */
function ownFields(body: Body): Record<string, unknown> {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return { ...body };
  return Object.fromEntries(
    Object.entries(body).filter(
      ([field, value]) =>
        FIELDS_OF[variant].has(field) &&
        value !== null &&
        // The service may have let a required text be empty: a PUT must have the field.
        (value !== "" || REQUIRED_OF[variant].has(field)),
    ),
  );
}
