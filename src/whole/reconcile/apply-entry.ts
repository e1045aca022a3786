/**
 * Carries out one entry of a plan, if it is still true: the record goes through intake's own path, and
 * is compared with the ledger right before it is staged.
 */
import { crmsync } from "../../base/command.ts";
import { eventOrder } from "../../core/event/event-order.ts";
import type { MappingResult } from "../../intake/mapping/mapping.ts";
import type { CrmEvent } from "../../core/event/crm-event.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { acceptEvent } from "../../core/sync/accept-event.ts";
import type { Accepted } from "../../core/sync/end-record.ts";
import { agrees } from "../../core/sync/fingerprint.ts";
import type { LedgerRow } from "../../core/sync/ledger-row.ts";
import { notedEvent } from "../../core/sync/step.ts";
import type { StageResult, StateToStage } from "../../core/sync/stage.ts";
import { trialPorts } from "../preview/trial-ports.ts";
import type { PlanEntry } from "./plan-file.ts";
import type { PlanningView } from "./plan-record.ts";
import { SOURCE } from "./read-events.ts";

/** What became of one entry. `changed`: the record or the relation is no longer what the plan was made for. */
export const ENTRY_OUTCOMES = {
  sent: "sent",
  equal: "equal by now",
  newer: "a newer change of the CRM came first",
  held: `held with the other terminations (${crmsync`held list`})`,
  changed: "changed since the plan was made",
} as const;

export type EntryOutcome = keyof typeof ENTRY_OUTCOMES;

type EntryStores = Pick<Stores, "ledger" | "staged">;

export interface AppliedEntry {
  readonly outcome: EntryOutcome;
  /** What was staged. */
  readonly staged: Accepted | undefined;
}

/** Carries out an entry whose record is in the snapshot. */
export async function applyRecord(
  entry: PlanEntry,
  event: Readonly<Record<string, unknown>>,
  view: PlanningView,
  stores: EntryStores,
): Promise<AppliedEntry> {
  const { mapping } = view;
  let outcome: EntryOutcome = "changed";
  const mapped = (one: MappingResult) => withKept(one, entry);
  const ports = trialPorts(
    { ...view, codeOf: async () => undefined, mapped },
    {
      async stage(state) {
        if (state.crmCode !== entry.code || (state.fingerprint ?? "") !== entry.wants)
          return NOT_STAGED;
        if (await isUnplannedEnd(entry, state, stores)) return NOT_STAGED;
        const staged = await stageIfTrue(entry, { ...state, keeps: mapping.keeps }, stores);
        outcome = staged.outcome;
        return staged.result;
      },
    },
  );
  const { records } = await acceptEvent(event, { at: view.now(), number: 0 }, ports);
  const staged = records.find(
    ({ result, crmCode }) => result === "staged" && crmCode === entry.code,
  );
  return { outcome, staged };
}

/** Whether it would terminate what its kind calls an update: who approved the plan has read the kinds. */
async function isUnplannedEnd(
  { kind }: PlanEntry,
  { crmCode, payload = "{}", status }: StateToStage,
  { ledger }: EntryStores,
): Promise<boolean> {
  const { relationStatus } = JSON.parse(payload) as { readonly relationStatus?: unknown };
  if (kind === "ended" || (status !== "terminated" && relationStatus !== "terminated"))
    return false;
  const row = await ledger.row(crmCode);
  return row?.exists === true && !row.terminated;
}

/** Terminates a relation that the CRM does not have any more; it keeps the fields that the service has. */
export async function applyTermination(
  { code, was }: Pick<PlanEntry, "code" | "was">,
  asOf: string,
  stores: EntryStores,
): Promise<AppliedEntry> {
  const event: CrmEvent = {
    specversion: "1.0",
    id: code,
    source: SOURCE,
    type: "crm.record.deleted",
    subject: `reconcile/${code}`,
    time: asOf,
    lane: "bulk",
  };
  const state: StateToStage = {
    crmCode: code,
    eventKey: "",
    order: eventOrder({ time: asOf }, 0),
    payload: undefined,
    fingerprint: undefined,
    variant: undefined,
    status: "terminated",
    lane: "bulk",
    time: Date.parse(asOf),
    event: JSON.stringify(event),
    noted: { event: notedEvent(event, { subject: event.subject }), ignored: undefined },
  };
  const { outcome, result } = await stageIfTrue({ was, wants: "" }, state, stores);
  const staged: Accepted = { ...result, crmCode: code, lane: "bulk" };
  return { outcome, staged: result.result === "staged" ? staged : undefined };
}

const NOT_STAGED: StageResult = {
  result: "superseded",
  coalesced: false,
};

async function stageIfTrue(
  entry: Pick<PlanEntry, "was" | "wants">,
  state: StateToStage,
  { ledger, staged }: EntryStores,
): Promise<{ outcome: EntryOutcome; result: StageResult }> {
  const now = stillTrue(entry, state, await ledger.row(state.crmCode));
  if (now !== "sent") return { outcome: now, result: NOT_STAGED };
  // Without an event key, only the event order decides: the plan itself knows which entries were done.
  const result = await staged.stage({ ...state, eventKey: "" });
  return { outcome: RESULTS[result.result], result };
}

const RESULTS: Readonly<Record<StageResult["result"], EntryOutcome>> = {
  staged: "sent",
  held: "held",
  unchanged: "equal",
  nothing_to_terminate: "equal",
  superseded: "newer",
  duplicate: "newer",
};

/** `sent`: the relation is still what the plan was made for, or is already what the plan wants. */
export function stillTrue(
  { was, wants }: Pick<PlanEntry, "was" | "wants">,
  { order, status }: Pick<StateToStage, "order" | "status">,
  row: LedgerRow | undefined,
): Extract<EntryOutcome, "sent" | "newer" | "changed"> {
  if (row === undefined) return "sent";
  if (row.orders.status > order) return "newer";
  // A request is under way, perhaps for this very entry: the newest state is sent in any case.
  if (row.uncertain || row.exists === undefined) return "sent";
  if (!row.exists) return was === "" ? "sent" : "changed";
  // The relation is equal by now. Staging settles that, and so replaces an older change that waits.
  if (wants !== "" && agrees(wants, row.fingerprint)) return "sent";
  if (wants === "" && status === "terminated" && row.terminated) return "sent";
  return row.fingerprint === was ? "sent" : "changed";
}

/** What the plan has found that the service must keep, beside what is not understood. */
const withKept = (mapped: MappingResult, { keeps = [] }: PlanEntry): MappingResult =>
  mapped.kind === "mapped" && keeps.length > 0
    ? { ...mapped, notUnderstood: [...new Set([...(mapped.notUnderstood ?? []), ...keeps])] }
    : mapped;
