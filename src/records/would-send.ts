/**
 * What would become of each change that waits, if it were sent now: THE PATH runs as it does in the daemon
 * (sync-relation.ts), with ports that send and write nothing.
 */
import { keepsWith, keptFieldsOf } from "../core/sync/keeps.ts";
import { variantOf } from "../core/service-spec/business-relation.ts";
import { DamagedValue, UnknownKey } from "../core/state/sealing.ts";
import { openState } from "../core/state/staged-values.ts";
import type { Sendable } from "../core/sync/decide.ts";
import { filledIn } from "../core/sync/emptied.ts";
import { meaningfulFields } from "../core/sync/fingerprint.ts";
import { newestOrders, provenOf, waitingIn } from "../core/sync/known.ts";
import { changeBetween } from "../core/sync/marks.ts";
import type { KnownRecord, Now } from "../core/sync/record.ts";
import type { Settlement, TakenState } from "../core/sync/run.ts";
import { syncRelation, type SyncPorts } from "../core/sync/sync-relation.ts";
import type { Lane } from "../core/event/lane.ts";
import type { Problem } from "../core/event/problem.ts";
import type { Stores } from "../operate/status/stores.ts";
import type { Guards } from "../whole/preview/guards.ts";
import {
  changesBetween,
  type Body,
  type FieldChange,
  type ServiceView,
} from "../whole/preview/preview-one.ts";

/** `read`: what follows is decided by the relation that a GET returns. */
export type Request = "POST" | "PUT" | "GET, then PUT" | "read" | "none";

export interface WouldSend {
  readonly crmCode: string;
  readonly lane: Lane;
  /** Since when it waits, ms. */
  readonly since: number;
  readonly request: Request;
  readonly result: "sent" | "skipped" | "held" | "rejected";
  /** It would end the relation. */
  readonly ends?: boolean | undefined;
  /** Why it is skipped or held. */
  readonly why?: string | undefined;
  /** Names of fields whose value would change; of a new relation, all of them. Undefined: not known without a request. */
  readonly fields?: readonly string[] | undefined;
  /** Those of them that would have no value any more. */
  readonly emptied: readonly string[];
  /** Fields in which the service keeps what it has. */
  readonly kept: readonly string[];
  /** Fields that are sent without a value, because it could not be used. */
  readonly without: readonly string[];
  /** Why it would become a dead letter. */
  readonly problems: readonly Problem[];
  /** With values: what the service has, and what would be sent. */
  readonly changes?: readonly FieldChange[] | undefined;
}

/** What all changes share. */
export interface Shared extends Pick<SyncPorts, "fingerprintsWithout"> {
  readonly stores: Stores;
  readonly keeps: TakenState["keeps"];
  readonly guards: Guards;
}

/** How many requests each needs. */
export const REQUESTS: Readonly<Record<Request, number>> = {
  POST: 1,
  PUT: 1,
  "GET, then PUT": 2,
  read: 2,
  none: 0,
};

/** Ends the run where a request would be sent. `existing`: what the service has, where it was asked. */
class Sent extends Error {
  readonly request: Sendable;
  readonly existing: Body | undefined;

  constructor(request: Sendable, existing?: Body) {
    super("a request would be sent");
    this.request = request;
    this.existing = existing;
  }
}

/**
 * @param ask returns the relation as the service has it; undefined: by the ledger alone.
 * @returns undefined when nothing waits, or its state cannot be opened here.
 */
export async function wouldSend(
  crmCode: string,
  known: KnownRecord & Pick<Now, "now" | "warm">,
  shared: Shared,
  ask: ServiceView["ask"],
): Promise<WouldSend | undefined> {
  const change = waitingIn(known.staged);
  if (change === undefined) return undefined;
  const { now, row, warm } = known;
  const { keeps, stores } = shared;
  const open = await openState(change, crmCode, stores.sealing, now).catch((error: unknown) => {
    if (error instanceof UnknownKey || error instanceof DamagedValue) {
      throw new Error(`${crmCode}: its change cannot be opened here (STATE_KEY)`, { cause: error });
    }
    throw error;
  });
  const about = {
    crmCode,
    lane: change.lane,
    since: change.since,
    kept: [...open.notUnderstood],
    without: change.fields?.without?.fields ?? [],
    emptied: [],
    problems: [],
  };
  if (change.held !== undefined) {
    const { fields = [], why } = change.held;
    return { ...about, request: "none", result: "held", why, emptied: fields };
  }
  const taken = { crmCode, token: "", row: provenOf(row, warm), keeps, ...open };
  const state = { ...taken, orders: newestOrders(known) };
  return { ...about, ...(await runDry(state, shared, ask)) };
}

type Found = Pick<WouldSend, "request" | "result"> & Partial<WouldSend>;

/** Runs it until a write would be sent, or nothing is. With `ask`, the service answers as it stands. */
async function runDry(first: TakenState, shared: Shared, ask: ServiceView["ask"]): Promise<Found> {
  const { guards, stores } = shared;
  const { approved = false } = first.change;
  let isAdmitted: boolean | undefined;
  let state = first;
  let how: Settlement | undefined;
  let hasRead = false;
  const never = (): never => {
    throw new Error("a dry run got as far as a reply to a write");
  };
  const ports: SyncPorts = {
    take: async () => ({ kind: "taken", state }),
    // The guard counts a termination once, also if the relation is read first.
    admitTermination: async () => (isAdmitted ??= approved || guards.admitsTermination()),
    admitUpdate: async (_, update) => (approved ? [] : guards.unusualIn(update)),
    async send(request) {
      if (ask === undefined) throw new Sent(request);
      const body = await ask(first.crmCode);
      if (request.kind === (body === undefined ? "create" : "update"))
        throw new Sent(request, body);
      hasRead ||= request.kind === "fetch";
      const isFound = body !== undefined && request.kind === "fetch";
      const other = { kind: body === undefined ? "missing" : "exists" } as const;
      return { reply: isFound ? { kind: "found", body } : other, isRejecting: false };
    },
    async settle(_, settlement) {
      how = settlement;
      return "settled";
    },
    storeDeadLetter: async () => {},
    isToBeChecked: never,
    // A read may show that an earlier write was applied.
    audit: async () => {},
    retryShareMs: never,
    now: () => stores.clock.now(),
    lists: () => stores.tenantLists.current(),
    fingerprintsWithout: shared.fingerprintsWithout,
    retry: { baseMs: 0, giveUpMs: 0, holdMs: 0, verifyMs: 0, random: () => 0 },
  };
  try {
    for (;;) {
      const { end } = await syncRelation(first.crmCode, ports);
      const { outcome, problems = [], reason: why } = end;
      if (outcome === "rejected") return { request: "none", result: "rejected", problems };
      if (outcome === "held")
        return { request: "none", result: "held", why, emptied: how?.held?.fields ?? [] };
      if (end.finished) return { request: "none", result: "skipped", why };
      state = afterRead(state, how);
    }
  } catch (error) {
    if (!(error instanceof Sent)) throw error;
    return requestOf(error, state, shared, hasRead);
  }
}

/** The next run knows what this one has read. */
const afterRead = (
  state: TakenState,
  { confirm, kept = state.kept, payload, row = "before" }: Partial<Settlement> = {},
): TakenState => ({
  ...state,
  change: { ...state.change, confirm },
  row: typeof row === "string" ? state.row : row,
  kept,
  ...(payload !== undefined && { payload, notUnderstood: [] }),
});

function requestOf(
  { existing, request }: Sent,
  { keeps, notUnderstood, row, status }: TakenState,
  { fingerprintsWithout }: Shared,
  hasRead: boolean,
): Found {
  const body = request.kind === "fetch" ? request.into : request.body;
  const ends = status === "terminated" || body?.["relationStatus"] === "terminated";
  if (body === undefined)
    return { request: "read", result: "sent", ends, fields: ["relationStatus"] };
  const changes = existing && changesBetween(meaning(existing), meaning(body));
  if (request.kind === "create") {
    return { request: "POST", result: "sent", fields: Object.keys(meaning(body)), changes };
  }
  const variant = variantOf(body["type"]);
  const kept = Object.keys(keptFieldsOf(variant, keepsWith(keeps, variant, notUnderstood)) ?? {});
  const fingerprintOf = fingerprintsWithout(keeps);
  const marks = fingerprintOf.marksOf?.(body);
  const after = { fingerprint: fingerprintOf(body), filled: filledIn(body), marks };
  const known = row.uncertain || row.exists !== true ? undefined : changeBetween(row, after);
  const isOwn = (field: string) => changes !== undefined || !kept.includes(field);
  const emptied = changes?.filter(({ after: is }) => is === undefined).map(({ field }) => field);
  return {
    request: request.kind === "update" && !hasRead ? "PUT" : "GET, then PUT",
    result: "sent",
    ends,
    fields: (changes?.map(({ field }) => field) ?? known?.changed)?.filter(isOwn),
    emptied: (emptied ?? known?.emptied ?? []).filter(isOwn),
    kept,
    changes,
  };
}

const meaning = (body: Body): Body => Object.fromEntries(meaningfulFields(body) ?? []);
