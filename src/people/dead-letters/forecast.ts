/**
 * What would become of a dead letter if it were redriven now: its event takes the way that intake
 * takes (acceptEvent), with the present mapping and value lists. Nothing is stored or sent.
 */
import type { Mapping } from "../../intake/mapping/mapping.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { acceptEvent } from "../../core/sync/accept-event.ts";
import type { Accepted } from "../../core/sync/end-record.ts";
import type { DeadReason } from "../../core/sync/dead-letter.ts";
import { decide, REJECTIONS } from "../../core/sync/decide.ts";
import type { FingerprintOf } from "../../core/sync/fingerprint.ts";
import { isSuperseded, provenIn, type ProvenRecord } from "../../core/sync/known.ts";
import type { StateToStage } from "../../core/sync/stage.ts";
import type { Problem } from "../../core/event/problem.ts";
import { isKeptProblem } from "../../core/sync/validate.ts";
import { trialPorts } from "../../whole/preview/trial-ports.ts";
import { arrivalOf, parsedEvent } from "./stored-event.ts";

/** What is known without a request. */
export interface RedriveView {
  readonly mapping: Mapping;
  /** Undefined while the tenant's lists are not known. */
  readonly lists: TenantLists | undefined;
  readonly fingerprintOf: FingerprintOf;
  readonly now: () => number;
  /** The crmCode to which a record of the CRM led before. */
  codeOf(subject: string): Promise<string | undefined>;
  known(crmCode: string): Promise<ProvenRecord>;
}

type Body = Readonly<Record<string, unknown>>;

/** @param mapping the one that the events are mapped by; the caller closes it. */
export async function openRedriveView(
  {
    clock,
    keyring,
    records,
    staged,
    tenantLists,
  }: Pick<Stores, "clock" | "keyring" | "records" | "staged" | "tenantLists">,
  mapping: Mapping,
): Promise<RedriveView> {
  const areKnown = await tenantLists.reload();
  return {
    mapping,
    lists: areKnown ? tenantLists.current() : undefined,
    fingerprintOf: await keyring.fingerprintOf(mapping.keeps),
    now: () => clock.now(),
    codeOf: (subject) => staged.codeOf(subject),
    known: async (crmCode) => provenIn(await records.read(crmCode)),
  };
}

/**
 * Why no forecast is possible: the record must be fetched from its CRM first, the service itself has
 * rejected it, or the tenant's value lists are not known.
 */
export type UnknownWhy = "fetch" | "service" | "lists";

export type Forecast =
  | { readonly kind: "fails"; readonly reason: DeadReason; readonly problems: readonly Problem[] }
  | { readonly kind: "unknown"; readonly why: UnknownWhy }
  /** It passes, and costs a request. */
  | { readonly kind: "sent" }
  /** It passes without a request: unchanged, ignored by the mapping, or older than what is known. */
  | { readonly kind: "settled" };

/** The forecast of an event of several records is the first of these that one of them has. */
const ORDER: readonly Forecast["kind"][] = ["fails", "unknown", "sent", "settled"];

/** Reasons for which only the service knows whether the same record passes now. */
const BY_SERVICE: ReadonlySet<DeadReason> = new Set(["service_rejected", "contradiction"]);

const SETTLED: Forecast = { kind: "settled" };

export async function forecastOf(letter: StoredDeadLetter, view: RedriveView): Promise<Forecast> {
  const { problems, reason } = letter;
  const value = parsedEvent(letter);
  if (value === undefined) return { kind: "fails", reason, problems };
  const staged: StateToStage[] = [];
  const arrival = arrivalOf(letter, view.now());
  const ports = trialPorts(view, {
    async stage(state) {
      staged.push(state);
      return { result: "staged", coalesced: false };
    },
  });
  const { records } = await acceptEvent(value, arrival, ports);
  const onStates = staged.map(async (state) => {
    return forecastOfState(state, await view.known(state.crmCode), view);
  });
  const all = [...records.flatMap(forecastOfRecord), ...(await Promise.all(onStates))];
  const [first = SETTLED] = all.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  const isByService = BY_SERVICE.has(reason) || problems.some(isKeptProblem);
  return first.kind === "sent" && isByService ? { kind: "unknown", why: "service" } : first;
}

/** Nothing for a record that would be staged: `forecastOfState` decides about it. */
function forecastOfRecord({ result, reason, problems = [] }: Accepted): Forecast[] {
  switch (result) {
    case "staged":
      return [];
    case "rejected":
      return [{ kind: "fails", reason: reason ?? "defect", problems }];
    case "fetching":
      return [{ kind: "unknown", why: "fetch" }];
    case "waiting":
      return [{ kind: "unknown", why: "lists" }];
    case "held":
    case "unchanged":
    case "nothing_to_terminate":
    case "superseded":
    case "duplicate":
    case "ignored":
      return [SETTLED];
  }
}

function forecastOfState(
  state: StateToStage,
  { row, newest }: ProvenRecord,
  view: RedriveView,
): Forecast {
  const { order, fieldsOrder = order } = state;
  const orders = { status: order, fields: state.payload === undefined ? "" : fieldsOrder };
  if (isSuperseded(orders, newest)) return SETTLED;
  const { notUnderstood = [], payload } = state;
  const wanted = {
    payload: payload === undefined ? undefined : (JSON.parse(payload) as Body),
    // A newer event without fields decides the status.
    status: (order < row.orders.status ? row.orders.is : undefined) ?? state.status,
    notUnderstood,
  };
  const decision = decide(wanted, row, view.fingerprintOf);
  switch (decision.kind) {
    case "create":
    case "update":
    case "fetch":
      return { kind: "sent" };
    case "skip":
      return SETTLED;
    case "reject":
      return { kind: "fails", reason: decision.why, problems: REJECTIONS[decision.why] };
  }
}
