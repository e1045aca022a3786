/**
 * What would become of each change that waits, if it were sent now: THE PATH runs as it does in the daemon
 * (sync-relation.ts), with ports that send and write nothing.
 */
import { carryOver, hasValue, keepsWith, keptFieldsOf } from "../core/sync/keeps.ts";
import { variantOf } from "../core/service-spec/business-relation.ts";
import { DamagedValue, UnknownKey } from "../core/state/sealing.ts";
import { openState } from "../core/state/staged-values.ts";
import type { ReadRecord } from "../core/state/record-store.ts";
import type { Sendable } from "../core/sync/decide.ts";
import { filledIn } from "../core/sync/emptied.ts";
import { meaningfulFields, type FingerprintOf } from "../core/sync/fingerprint.ts";
import { newestOrders, provenOf, waitingIn } from "../core/sync/known.ts";
import { changeBetween } from "../core/sync/marks.ts";
import type { TakenState } from "../core/sync/run.ts";
import { syncRelation, type SyncPorts } from "../core/sync/sync-relation.ts";
import type { Lane } from "../core/event/lane.ts";
import type { Problem } from "../core/event/problem.ts";
import type { Stores } from "../operate/status/stores.ts";
import type { Guards } from "../whole/preview/guards.ts";
import { changesBetween, type Body, type FieldChange } from "../whole/preview/preview-one.ts";

/** `read`: what follows is decided by the relation that a GET returns. */
export type Request = "POST" | "PUT" | "GET, then PUT" | "read" | "none";

export interface WouldSend {
  readonly crmCode: string;
  readonly lane: Lane;
  /** Since when it waits, ms. */
  readonly since: number;
  readonly request: Request;
  readonly result: "sent" | "skipped" | "held" | "rejected";
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
export interface Shared {
  readonly stores: Stores;
  readonly fingerprintOf: FingerprintOf;
  readonly fingerprintsWithout: SyncPorts["fingerprintsWithout"];
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

/** Ends the run where a request would be sent. */
class Sent extends Error {
  readonly request: Sendable;

  constructor(request: Sendable) {
    super("a request would be sent");
    this.request = request;
  }
}

/**
 * @param existing what the service has, where it was asked.
 * @returns undefined when nothing waits, or its state cannot be opened here.
 */
export async function wouldSend(
  crmCode: string,
  shared: Shared,
  existing?: Body,
): Promise<WouldSend | undefined> {
  const { stores } = shared;
  const read = await stores.records.read(crmCode);
  const change = waitingIn(read.staged);
  if (change === undefined) return undefined;
  const state = await stateOf(crmCode, read, shared);
  const about = {
    crmCode,
    lane: change.lane,
    since: change.since,
    kept: [...state.notUnderstood],
    without: change.fields?.without?.fields ?? [],
    emptied: [],
    problems: [],
  };
  if (change.held !== undefined) {
    const { fields = [], why } = change.held;
    return { ...about, request: "none", result: "held", why, emptied: fields };
  }
  return { ...about, ...(await runDry(crmCode, state, shared, existing)) };
}

async function stateOf(
  crmCode: string,
  read: ReadRecord,
  { keeps, stores }: Shared,
): Promise<TakenState> {
  const { now, row, staged, warm } = read;
  if (staged === undefined) throw new Error("nothing waits");
  const open = await openState(staged, crmCode, stores.sealing, now).catch((error: unknown) => {
    if (error instanceof UnknownKey || error instanceof DamagedValue) {
      throw new Error(`${crmCode}: its change cannot be opened here (STATE_KEY)`, { cause: error });
    }
    throw error;
  });
  const orders = newestOrders(read);
  return { crmCode, token: "", row: provenOf(row, warm), keeps, orders, ...open };
}

async function runDry(
  crmCode: string,
  state: TakenState,
  shared: Shared,
  existing: Body | undefined,
): Promise<Pick<WouldSend, "request" | "result"> & Partial<WouldSend>> {
  const { guards, stores } = shared;
  const never = (): never => {
    throw new Error("a dry run got as far as a reply");
  };
  const ports: SyncPorts = {
    take: async () => ({ kind: "taken", state }),
    admitTermination: async () => state.change.approved === true || guards.admitsTermination(),
    admitUpdate: async (_, update) =>
      state.change.approved === true ? [] : guards.unusualIn(update),
    send: async (request) => {
      throw new Sent(request);
    },
    settle: async () => "settled",
    storeDeadLetter: async () => {},
    isToBeChecked: never,
    audit: never,
    retryShareMs: never,
    now: () => stores.clock.now(),
    lists: () => stores.tenantLists.current(),
    fingerprintsWithout: shared.fingerprintsWithout,
    retry: { baseMs: 0, giveUpMs: 0, holdMs: 0, verifyMs: 0, random: () => 0 },
  };
  try {
    const { end } = await syncRelation(crmCode, ports);
    const { outcome, problems = [], reason } = end;
    if (outcome === "rejected") return { request: "none", result: "rejected", problems };
    return { request: "none", result: outcome === "held" ? "held" : "skipped", why: reason };
  } catch (error) {
    if (!(error instanceof Sent)) throw error;
    return requestOf(error.request, state, shared, existing);
  }
}

function requestOf(
  request: Sendable,
  { keeps, notUnderstood, row }: TakenState,
  { fingerprintOf }: Shared,
  existing: Body | undefined,
): Pick<WouldSend, "request" | "result"> & Partial<WouldSend> {
  const body = request.kind === "fetch" ? request.into : request.body;
  if (body === undefined) return { request: "read", result: "sent", fields: ["relationStatus"] };
  const variant = variantOf(body["type"]);
  const fields = keptFieldsOf(variant, keepsWith(keeps, variant, notUnderstood)) ?? {};
  const kept = Object.keys(fields);
  const sent = existing === undefined ? body : carryOver(body, pick(existing, kept), fields);
  const changes = existing && changesBetween(meaning(existing), meaning(sent));
  if (request.kind === "create") {
    return { request: "POST", result: "sent", fields: Object.keys(meaning(body)), changes };
  }
  const marks = fingerprintOf.marksOf?.(body);
  const after = { fingerprint: fingerprintOf(body), filled: filledIn(body), marks };
  const known = row.uncertain || row.exists !== true ? undefined : changeBetween(row, after);
  const isOwn = (field: string) => changes !== undefined || !kept.includes(field);
  const emptied = changes?.filter(({ after: is }) => is === undefined).map(({ field }) => field);
  return {
    request: request.kind === "update" ? "PUT" : "GET, then PUT",
    result: "sent",
    fields: (changes?.map(({ field }) => field) ?? known?.changed)?.filter(isOwn),
    emptied: (emptied ?? known?.emptied ?? []).filter(isOwn),
    kept,
    changes,
  };
}

const meaning = (body: Body): Body => Object.fromEntries(meaningfulFields(body) ?? []);

const pick = (body: Body, fields: readonly string[]): Body =>
  Object.fromEntries(
    fields.flatMap((field) => (hasValue(body[field]) ? [[field, body[field]]] : [])),
  );
