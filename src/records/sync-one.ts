/** One record on demand: read from its CRM, mapped, compared with the service, and what follows, step by step. */
import { randomUUID } from "node:crypto";
import { crmsync } from "../base/command.ts";
import { proxyOf } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";
import { splitSubject } from "../core/event/crm-event.ts";
import { eventOrder } from "../core/event/event-order.ts";
import { variantOf } from "../core/service-spec/business-relation.ts";
import { MemoryGate } from "../core/state/redis-health.ts";
import { UnknownKey } from "../core/state/sealing.ts";
import { RecordNames } from "../core/state/record-names.ts";
import { fieldUpdate } from "../core/sync/emptied.ts";
import { provenOf, timeOfOrder, waitingIn, writerOf } from "../core/sync/known.ts";
import { heldBecause, type HeldWhy } from "../core/sync/record.ts";
import { isOfOther } from "../core/sync/stage.ts";
import { createCrmApi, type CrmApi } from "../intake/crm/api-client.ts";
import { CRMS } from "../intake/crm/connectors.ts";
import { canFetch, readWhole } from "../intake/crm/read-whole.ts";
import type { CrmRecord, Mapping } from "../intake/mapping/mapping.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import { takeReadings, type Readings } from "../operate/status/readings.ts";
import { stopsIn } from "../operate/status/stops.ts";
import type { Stores } from "../operate/status/stores.ts";
import { Guards } from "../whole/preview/guards.ts";
import { previewOne, type Preview, type ServiceView } from "../whole/preview/preview-one.ts";
import { wordsOf } from "../whole/preview/print.ts";
import { openReader, storedView } from "../whole/preview/service-view.ts";
import type { PreviewInput } from "../whole/preview/read-records.ts";

/** What becomes of the record. `absent`: the CRM does not have it. */
export type Then =
  | "create"
  | "update"
  | "terminate"
  | "skip"
  | "held"
  | "rejected"
  | "ignored"
  | "absent";

export interface Step {
  readonly step: "read" | "map" | "payload" | "service" | "result" | "waits";
  /** A sentence without values. */
  readonly says: string;
  /** Each field with its values; only where they were asked for. */
  readonly values?: readonly string[];
}

/** An event for the inbox. */
interface SyncEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string;
  readonly time: string;
  readonly data?: { readonly record: CrmRecord; readonly partial?: true };
}

export interface SyncPlan {
  readonly name: string;
  readonly crmCode: string | undefined;
  readonly record: string;
  readonly steps: readonly Step[];
  readonly becomes: Then;
  /** What is to be pushed; undefined: nothing is. */
  readonly event: SyncEvent | undefined;
}

interface SyncPorts {
  readonly stores: Stores;
  readonly mapping: Mapping;
  readonly api: CrmApi;
  readonly view: ServiceView;
}

export interface SyncOptions {
  /** The record instead of the CRM's. */
  readonly input?: PreviewInput | undefined;
  readonly showValues?: boolean | undefined;
  /** Called before the service is asked for the relation. */
  readonly onAsk?: (crmCode: string) => Promise<void>;
}

/** How long a CRM may take, ms: a person waits. */
const CRM_TIMEOUT_MS = 15_000;

/** Source of the events of a record that no event has named before. */
const SOURCE = "/sync";

/** Sends nothing. @throws UserError where the record cannot be found or read. */
export async function planSync(
  name: string,
  { mapping, stores }: Pick<SyncPorts, "mapping" | "stores">,
  options: SyncOptions = {},
): Promise<SyncPlan> {
  const { config } = stores;
  const api = createCrmApi({ timeoutMs: CRM_TIMEOUT_MS, proxy: proxyOf(config) });
  const hasToken = config.SERVICE_BASE_URL !== undefined && config.secrets.SERVICE_TOKEN;
  const reader = hasToken ? openReader(config, stores) : undefined;
  const ask = async (crmCode: string) => {
    await options.onAsk?.(crmCode);
    return reader?.read(crmCode);
  };
  try {
    await stores.tenantLists.reload();
    const view = await storedView(stores, mapping.keeps, reader && ask);
    return await planWith(name, { stores, mapping, api, view }, options);
  } finally {
    await reader?.close();
    await api.close();
  }
}

async function planWith(
  name: string,
  ports: SyncPorts,
  { input: given, showValues = false }: SyncOptions,
): Promise<SyncPlan> {
  const { mapping, stores } = ports;
  await stores.clock.measure();
  const time = new Date(stores.clock.now()).toISOString();
  const found = await findRecord(name, stores);
  const { steps, ...read } =
    given === undefined ? await readFromCrm(found, ports) : fromFile(given, found.source);
  const { subject, source } = read;
  const base = { name, record: subject };
  if (given === undefined && read.record === undefined)
    return { ...base, crmCode: found.crmCode, steps, becomes: "absent", event: undefined };
  const context = { type: read.type, source, subject, ...splitSubject(subject) };
  // What the CRM has now is newer than all that came before; an event in a file has a time of its own.
  const ownTime = timeOfOrder(given?.order ?? "");
  const at = Number.isNaN(ownTime) ? time : new Date(ownTime).toISOString();
  const order = eventOrder({ time: at }, Number.MAX_SAFE_INTEGER);
  const isWhole = given !== undefined;
  const input: PreviewInput = {
    place: subject,
    context: { ...context, partial: isWhole ? undefined : true },
    order,
    record: read.record,
    fetch: undefined,
    hasId: true,
  };
  const { preview, view, unasked } = await previewWith(ports.view, (one) =>
    previewOne(input, mapping, one),
  );
  requireSame(name, found, preview, subject);
  const readings = await takeReadings(stores);
  const { becomes, says } = await follows(preview, input, { stores, view }, readings);
  const isSent = becomes === "create" || becomes === "update" || becomes === "terminate";
  const event: SyncEvent = {
    specversion: "1.0",
    id: `sync-${randomUUID()}`,
    source,
    type: read.type,
    subject,
    time: at,
    ...(read.record && { data: { record: read.record, ...(!isWhole && { partial: true }) } }),
  };
  return {
    ...base,
    crmCode: preview.crmCode ?? found.crmCode,
    steps: [
      ...steps,
      mapStep(preview, mapping, context.object),
      ...payloadSteps(preview, showValues),
      ...serviceSteps(preview, showValues),
      ...(unasked === undefined ? [] : [{ step: "service", says: unasked } as const]),
      { step: "result", says },
      ...(isSent ? waitSteps(readings) : []),
    ],
    becomes,
    event,
  };
}

/** Puts the event into the inbox, as `crmsync push` does: it is a live change. @param by who asks for it, for the audit trail */
export async function pushSync(
  { auditActs, clock, inbox, keyring, redis, sealing }: Stores,
  by: string,
  { crmCode, event }: SyncPlan,
): Promise<void> {
  if (event === undefined) return;
  const missing = await keyring.missingKey();
  if (missing !== undefined) throw new UnknownKey(missing, sealing.keyIds);
  if (await new MemoryGate(redis).isClosed())
    throw new UserError("Redis is nearly full and accepts no events: see the status");
  const { id, source } = event;
  const details = { events: 1, sync: true };
  await auditActs.record({ act: "push", by, crmCode, event: { id, source }, details });
  await inbox.push([event], clock.latest(), await keyring.contentHash());
}

/** With one request to the service; without it, where none may be sent now. */
async function previewWith(view: ServiceView, preview: (view: ServiceView) => Promise<Preview>) {
  const blind = { ...view, ask: undefined };
  const { ask } = view;
  let reply: ReturnType<NonNullable<typeof ask>> | undefined;
  const once = { ...view, ask: ask && ((crmCode: string) => (reply ??= ask(crmCode))) };
  try {
    const asked = await preview(once);
    if (asked.decision !== "skip" || reply === undefined)
      return { preview: asked, view: once, unasked: undefined };
    // The daemon does not know that the service has exactly this: it is sent once more.
    const { decision = "update" } = await preview(blind);
    const sent = decision === "create" ? "update" : decision;
    return {
      preview: { ...asked, decision: sent, why: undefined },
      view: once,
      unasked: undefined,
    };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const unasked = `the service was not asked: ${error.message}`;
    return { preview: await preview(blind), view: blind, unasked };
  }
}

interface FoundRecord {
  readonly crmCode: string | undefined;
  /** Undefined: no event has named it. */
  readonly subject: string | undefined;
  readonly source: string | undefined;
}

async function findRecord(name: string, stores: Stores): Promise<FoundRecord> {
  const names = await new RecordNames(stores).find(name);
  const [crmCode] = names.crmCodes;
  const histories = [
    ...(crmCode === undefined ? [] : [await stores.history.read({ crmCode })]),
    ...(names.subject === undefined ? [] : [await stores.history.read({ subject: names.subject })]),
  ];
  const events = histories.flat().flatMap((step) => (step.kind === "event" ? [step.event] : []));
  const last = events.findLast(({ source }) => source !== SOURCE) ?? events.at(-1);
  const [kept] = crmCode === undefined ? [] : await stores.knownRecords.read([crmCode]);
  const isKnown = kept?.row !== undefined || kept?.change !== undefined;
  return {
    crmCode: names.subject === undefined || isKnown ? crmCode : undefined,
    subject: names.subject ?? last?.subject,
    source: last?.source,
  };
}

interface ReadRecord {
  readonly subject: string;
  readonly source: string;
  readonly type: string;
  readonly record: CrmRecord | undefined;
  readonly steps: readonly Step[];
}

const withRecord = (subject = "NAME"): string => crmsync`sync ${subject} --record FILE`;

async function readFromCrm(
  { source = SOURCE, subject }: FoundRecord,
  { api, mapping, stores: { clock, config } }: SyncPorts,
): Promise<ReadRecord> {
  if (subject === undefined)
    throw new UserError(
      `which record of the CRM that is, is not known: give its name there, such as contact/7, or the record itself, with ${withRecord()}`,
    );
  const crms = CRMS.map(({ name }) => name).filter((crm) => canFetch(config, crm));
  const named = crms.filter((crm) => source === `/${crm}` || source.startsWith(`/${crm}/`));
  const [crm, another] = named.length > 0 ? named : crms;
  if (crm === undefined || another !== undefined)
    throw new UserError(
      `${crm === undefined ? "no CRM can be read, because the settings of none are complete" : `from which CRM ${subject} comes is not known (${crms.join(", ")} are set)`}: give the record as the CRM has it, with ${withRecord(subject)}`,
    );
  const fetched = await readWhole(api, config, crm, subject, { mapping });
  const at = clockTime(clock.now());
  const base = { subject, source, type: "crm.record.updated" };
  switch (fetched.kind) {
    case "found": {
      const changed =
        fetched.modifiedAt === undefined ? "" : `, changed there at ${fetched.modifiedAt}`;
      const says = `${crm} has ${subject}, read at ${at}${changed}`;
      return { ...base, record: fetched.record, steps: [{ step: "read", says }] };
    }
    case "missing": {
      const says = `${crm} says that it has no ${subject} (${at}): nothing is sent. If it was deleted there, its deletion is an event of its own; the credentials may also not be allowed to read it`;
      return { ...base, record: undefined, steps: [{ step: "read", says }] };
    }
    case "throttled":
      throw new UserError(
        `${crm} asks for a pause of ${Math.ceil(fetched.retryAfterMs / 1000)} s: try again then, or give the record, with ${withRecord(subject)}`,
      );
    case "client_error":
    case "unavailable":
      throw new UserError(
        `${crm} did not return ${subject} (${fetched.reason}): give the record, with ${withRecord(subject)}`,
      );
  }
}

function fromFile({ context, place, record }: PreviewInput, known: string | undefined): ReadRecord {
  const { source, subject, type } = context;
  return {
    subject,
    source: source === "/preview" ? (known ?? SOURCE) : source,
    type,
    record,
    steps: [{ step: "read", says: `${place} has ${subject}; the CRM was not asked` }],
  };
}

/** A file may hold another record than the one that was named. */
function requireSame(name: string, found: FoundRecord, preview: Preview, subject: string): void {
  const names = new Set([name, found.crmCode, found.subject]);
  if (names.has(subject) || preview.crmCode === undefined || names.has(preview.crmCode)) return;
  throw new UserError(
    `the record is ${subject} with the crmCode ${preview.crmCode}, and not ${name}`,
  );
}

function mapStep({ crmCode, owner, payload }: Preview, mapping: Mapping, object: string): Step {
  const variant = variantOf(payload?.["type"]);
  const made = variant === undefined ? "" : ` makes a ${variant} of it`;
  const code = crmCode === undefined ? "" : `${made === "" ? "" : ","} with the crmCode ${crmCode}`;
  const of = owner === undefined ? "" : `; its owner is ${owner}`;
  return { step: "map", says: `the rule for ${object} in ${mapping.name}${made}${code}${of}` };
}

const shown = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

function payloadSteps(
  { leaves, payload, problems, warnings }: Preview,
  showValues: boolean,
): Step[] {
  const fields = Object.entries(payload ?? {}).filter(([field]) => field !== "crmCode");
  const named = fields.map(([field]) => field).join(", ");
  const values = fields.map(([field, value]) => `${field}: ${shown(value)}`);
  const made: Step = {
    step: "payload",
    says: `the payload has ${fields.length} fields: ${named}`,
    ...(showValues && { values }),
  };
  const more = [
    ...warnings.map((warning) => {
      const { field, kind, reason } = warning;
      return `warning: ${field}: ${wordsOf(showValues ? warning : { field, kind, reason })}`;
    }),
    ...problems.map(({ field, kind, rule }) => {
      return `problem: ${field || "the record"} ${rule} (it is ${kind})`;
    }),
    ...(leaves === undefined ? [] : [`it leaves the service (onLeave: terminate): ${leaves}`]),
  ];
  return [
    ...(payload === undefined ? [] : [made]),
    ...more.map((says) => ({ step: "payload", says }) as const),
  ];
}

function serviceSteps({ changes, decision, kept = [] }: Preview, showValues: boolean): Step[] {
  if (changes === undefined) return [];
  const how = decision === "fetch" ? `; it keeps ${kept.join(", ")}` : "";
  const named = changes.map(({ field }) => field).join(", ");
  const values = changes.map(
    ({ after, before, field }) => `${field}: ${shown(before)} → ${shown(after)}`,
  );
  const says = `the service has other values in ${named}${how}`;
  return [{ step: "service", says, ...(showValues && { values }) }];
}

const SKIPPED: Readonly<Record<string, string>> = {
  unchanged: "nothing is sent: the service has exactly this",
  superseded: "nothing is sent: a newer state of the record is known",
  nothing_to_terminate: "nothing is sent: the service has no such relation, or it is terminated",
};

const NOTHING_TO_RESTORE =
  "nothing is sent: it becomes a dead letter, because the service has no such relation and no record came";

/** What follows from the preview, the guards and what waits already. */
async function follows(
  preview: Preview,
  { context }: PreviewInput,
  { stores, view }: Pick<SyncPorts, "stores" | "view">,
  readings: Readings,
): Promise<{ readonly becomes: Then; readonly says: string }> {
  const { crmCode = "", decision, payload, result, status = "mapped", why = "" } = preview;
  if (result === "ignored")
    return { becomes: "ignored", says: `nothing is sent: the mapping leaves it out: ${why}` };
  if (result === "to fetch")
    return { becomes: "ignored", says: `nothing is sent: ${why} would have to be fetched` };
  if (result === "dead letter")
    return { becomes: "rejected", says: "nothing is sent: it becomes a dead letter" };
  const read = await stores.records.read(crmCode);
  const change = waitingIn(read.staged);
  const row = provenOf(read.row, read.warm);
  const isEnd = status === "terminated" || payload?.["relationStatus"] === "terminated";
  const guards = new Guards(readings);
  const held = (because: HeldWhy, fields: readonly string[] = []) =>
    ({
      becomes: "held",
      says: `it is held for a person: ${heldBecause(because, fields)}`,
    }) as const;
  if (decision === "skip") return { becomes: "skip", says: SKIPPED[why] ?? "nothing is sent" };
  if (status === "terminated") {
    const isApproved = change?.status.is === "terminated" && change.approved === true;
    if (change?.status.is === "terminated" && change.held) return held(change.held.why);
    const writer = writerOf(context.subject);
    if (!isApproved && isOfOther([row.writer, change?.fields?.writer], { writer }))
      return held("other_record");
  }
  const body = view.ask && payload === undefined ? await view.ask(crmCode) : undefined;
  if (status === "active" && view.ask !== undefined && payload === undefined) {
    if (body === undefined) return { becomes: "rejected", says: NOTHING_TO_RESTORE };
    if (body["relationStatus"] !== "terminated")
      return { becomes: "skip", says: SKIPPED["unchanged"] ?? "" };
    return { becomes: "update", says: "it is made active again (PUT)" };
  }
  if (status === "terminated" || (isEnd && row.exists !== false)) {
    // The guard is asked before the relation is read.
    const isEnded = row.exists === true && !row.uncertain && row.terminated;
    if (!isEnded && !guards.admitsTermination()) return held("limit");
    const isGone = body === undefined || body["relationStatus"] === "terminated";
    if (status === "terminated" && view.ask !== undefined && payload === undefined && isGone)
      return { becomes: "skip", says: SKIPPED["nothing_to_terminate"] ?? "" };
    return { becomes: "terminate", says: "the relation is terminated (PUT)" };
  }
  if (decision === "create") return { becomes: "create", says: "it is created (POST)" };
  const update = payload && fieldUpdate(payload, row);
  const unusual = update === undefined ? [] : guards.unusualIn(update);
  if (unusual.length > 0) return held("emptied", unusual);
  return {
    becomes: "update",
    says: decision === "fetch" ? "it is updated (GET, then PUT)" : "it is updated (PUT)",
  };
}

/** What keeps it back, and until when. */
function waitSteps(readings: Readings): Step[] {
  const [stop] = stopsIn(readings);
  if (stop !== undefined)
    return [{ step: "waits", says: `it waits, because sending is stopped: ${stop.says}` }];
  const { now, quota } = readings;
  const at = quota.hasSent ? quota.drainedAt({ live: 1, bulk: 0 }) : now;
  return at !== undefined && at - now > 2000
    ? [{ step: "waits", says: `it waits for quota, until about ${clockTime(at)}` }]
    : [];
}
