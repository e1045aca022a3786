/** One record on demand: read from its CRM, mapped, compared with the service, and what follows, step by step. */
import { randomUUID } from "node:crypto";
import { crmsync } from "../base/command.ts";
import { proxyOf } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";
import { splitSubject, type CrmEvent } from "../core/event/crm-event.ts";
import { variantOf } from "../core/service-spec/business-relation.ts";
import { MemoryGate } from "../core/state/redis-health.ts";
import { UnknownKey } from "../core/state/sealing.ts";
import { RecordNames } from "../core/state/record-names.ts";
import { acceptEvent } from "../core/sync/accept-event.ts";
import { timeOfOrder } from "../core/sync/known.ts";
import { heldBecause, type HeldWhy } from "../core/sync/record.ts";
import { stage } from "../core/sync/stage.ts";
import type { EventStep } from "../core/sync/step.ts";
import { createCrmApi, type CrmApi } from "../intake/crm/api-client.ts";
import { CRMS } from "../intake/crm/connectors.ts";
import { canFetch, readWhole } from "../intake/crm/read-whole.ts";
import type { CrmRecord, Mapping, MappingResult } from "../intake/mapping/mapping.ts";
import { leftOutText } from "../intake/mapping/whens.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import { takeReadings, type Readings } from "../operate/status/readings.ts";
import { stopsIn } from "../operate/status/stops.ts";
import type { Stores } from "../operate/status/stores.ts";
import { Guards } from "../whole/preview/guards.ts";
import type { ServiceView } from "../whole/preview/preview-one.ts";
import { wordsOf } from "../whole/preview/print.ts";
import { openReader } from "../whole/preview/service-view.ts";
import type { PreviewInput } from "../whole/preview/read-records.ts";
import { trialPorts } from "../whole/preview/trial-ports.ts";
import { wouldSend, type WouldSend } from "./would-send.ts";

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

export interface SyncPlan {
  readonly name: string;
  readonly crmCode: string | undefined;
  readonly record: string;
  readonly steps: readonly Step[];
  readonly becomes: Then;
  /** What is to be pushed; undefined: nothing is. */
  readonly event: CrmEvent | undefined;
}

interface SyncPorts {
  readonly stores: Stores;
  readonly mapping: Mapping;
  readonly api: CrmApi;
  readonly ask: ServiceView["ask"];
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

/** What the CRM has now is newer than all that came before at the same time. */
const LAST = Number.MAX_SAFE_INTEGER;

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
    return await planWith(name, { stores, mapping, api, ask: reader && ask }, options);
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
  await stores.tenantLists.reload();
  await stores.clock.measure();
  const now = stores.clock.now();
  const found = await findRecord(name, stores);
  const { record, source, steps, subject, type } =
    given === undefined ? await readFromCrm(found, ports) : fromFile(given, found.source);
  const base = { name, record: subject };
  if (given === undefined && record === undefined)
    return { ...base, crmCode: found.crmCode, steps, becomes: "absent", event: undefined };
  // What the CRM has now is newer than all that came before; an event in a file has a time of its own.
  const ownTime = timeOfOrder(given?.order ?? "");
  const isPart = given === undefined && ({ partial: true } as const);
  const event: CrmEvent = {
    specversion: "1.0",
    id: `sync-${randomUUID()}`,
    source,
    type: type as CrmEvent["type"],
    subject,
    lane: "live",
    time: new Date(Number.isNaN(ownTime) ? now : ownTime).toISOString(),
    ...(record && { data: { record, ...isPart } }),
  };
  const readings = await takeReadings(stores);
  const tried = await tryEvent(event, ports, readings, showValues);
  const { becomes, crmCode, says } = tried;
  requireSame(name, found, crmCode, subject);
  const isSent = becomes === "create" || becomes === "update" || becomes === "terminate";
  return {
    ...base,
    crmCode: crmCode ?? found.crmCode,
    steps: [
      ...steps,
      mapStep(tried, mapping, splitSubject(subject).object),
      ...payloadSteps(tried, showValues),
      ...serviceSteps(tried, showValues),
      { step: "result", says },
      ...(isSent ? waitSteps(readings) : []),
    ],
    becomes,
    event,
  };
}

const NOT_ASKED = "SERVICE_BASE_URL or SERVICE_TOKEN is not set here";

/** What the core has made of the event, and what follows. */
type Tried = Awaited<ReturnType<typeof tryEvent>>;

/** The event goes the daemon's own way, staged in memory alone, up to the request. */
async function tryEvent(
  event: CrmEvent,
  { ask, mapping, stores }: SyncPorts,
  readings: Readings,
  explain: boolean,
) {
  const { clock, crmChecks, keyring, records, staged, tenantLists } = stores;
  const { keeps } = mapping;
  const fingerprintsWithout = await keyring.fingerprintsWithout();
  let mapped: MappingResult | undefined;
  let noted: Pick<EventStep, "ignored" | "whens"> | undefined;
  let change: WouldSend | undefined;
  let unasked = ask === undefined ? NOT_ASKED : undefined;
  const view = {
    mapping,
    explain,
    changed: await crmChecks.readChanged(),
    lists: tenantLists.current(),
    fingerprintOf: fingerprintsWithout(keeps),
    codeOf: (subject: string) => staged.codeOf(subject),
    mapped: (one: MappingResult) => (mapped = one),
  };
  const ports = trialPorts(view, {
    note: (step) => (noted = step),
    async stage(state) {
      noted = state.noted;
      const read = await records.read(state.crmCode);
      const rank = { first: read.now, again: (place: number) => place };
      const made = stage(read, { ...state, rank, pace: undefined }, read);
      const would = (how: ServiceView["ask"]) => {
        const shared = { stores, keeps, fingerprintsWithout, guards: new Guards(readings) };
        return wouldSend(state.crmCode, { ...read, ...made.record }, shared, how);
      };
      change = await would(ask).catch((error: unknown) => {
        if (!(error instanceof UserError)) throw error;
        unasked = error.message;
        return would(undefined);
      });
      return made;
    },
  });
  const accepted = await acceptEvent(event, { at: clock.now(), number: LAST }, ports);
  const {
    crmCode = mapped?.crmCode,
    problems = [],
    result = "rejected",
  } = accepted.records.at(-1) ?? {};
  const { ignored: reason, whens } = noted ?? {};
  const { object } = splitSubject(event.subject);
  const why = reason && leftOutText({ reason, whens }, object, mapping);
  const [becomes, says] = endOf(result, change ?? {});
  return { becomes, says, crmCode, mapped, problems, why, change, unasked };
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
function requireSame(
  name: string,
  found: FoundRecord,
  crmCode: string | undefined,
  subject: string,
): void {
  const names = new Set([name, found.crmCode, found.subject]);
  if (names.has(subject) || crmCode === undefined || names.has(crmCode)) return;
  throw new UserError(`the record is ${subject} with the crmCode ${crmCode}, and not ${name}`);
}

function mapStep({ crmCode, mapped }: Tried, mapping: Mapping, object: string): Step {
  const { candidate, owner } = { candidate: undefined, owner: undefined, ...mapped };
  const variant = variantOf(candidate?.["type"]);
  const made = variant === undefined ? "" : ` makes a ${variant} of it`;
  const code = crmCode === undefined ? "" : `${made === "" ? "" : ","} with the crmCode ${crmCode}`;
  const of = owner === undefined ? "" : `; its owner is ${owner}`;
  return { step: "map", says: `the rule for ${object} in ${mapping.name}${made}${code}${of}` };
}

const shown = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

function payloadSteps({ change, mapped, problems, why }: Tried, showValues: boolean): Step[] {
  const candidate = mapped?.kind === "mapped" ? mapped.candidate : undefined;
  const fields = Object.entries(candidate ?? {}).filter(([field]) => field !== "crmCode");
  const warnings = mapped === undefined || mapped.kind === "ignored" ? [] : mapped.warnings;
  const all = [
    ...(candidate === undefined
      ? []
      : [`the payload has ${fields.length} fields: ${fields.map(([field]) => field).join(", ")}`]),
    ...warnings.map((warning) => `warning: ${warning.field}: ${wordsOf(warning)}`),
    ...[...problems, ...(change?.problems ?? [])].map(({ field, kind, rule }) => {
      return `problem: ${field || "the record"} ${rule} (it is ${kind})`;
    }),
    ...(why === undefined ? [] : [`the mapping leaves it out: ${why}`]),
  ];
  const values = fields.map(([field, value]) => `${field}: ${shown(value)}`);
  return all.map((says, n) => ({
    step: "payload",
    says,
    ...(showValues && n === 0 && { values }),
  }));
}

function serviceSteps({ change, unasked }: Tried, showValues: boolean): Step[] {
  const { changes, kept = [], request, result } = change ?? {};
  if (unasked !== undefined && result === "sent")
    return [{ step: "service", says: `the service was not asked: ${unasked}` }];
  if (changes === undefined || request === "POST") return [];
  const keeps = kept.length === 0 ? "" : `; it keeps ${kept.join(", ")}`;
  const named = changes.map(({ field }) => field).join(", ");
  const values = changes.map(
    ({ after, before, field }) => `${field}: ${shown(before)} → ${shown(after)}`,
  );
  const says = `the service has other values in ${named}${keeps}`;
  return [{ step: "service", says, ...(showValues && { values }) }];
}

type End = readonly [becomes: Then, says: string];

/** Of what is not sent, and of what is created. */
const ENDS: Readonly<Record<string, End>> = {
  unchanged: ["skip", "nothing is sent: the service has exactly this"],
  superseded: ["skip", "nothing is sent: a newer state of the record is known"],
  nothing_to_terminate: [
    "skip",
    "nothing is sent: the service has no such relation, or it is terminated",
  ],
  ignored: ["ignored", "nothing is sent: the mapping leaves it out"],
  fetching: ["ignored", "nothing is sent: the record to which it belongs would be fetched"],
  rejected: ["rejected", "nothing is sent: it becomes a dead letter"],
  POST: ["create", "it is created (POST)"],
};

/** @param accepted what intake makes of the event; of what it stages, `change` follows */
function endOf(
  accepted: string,
  { emptied, ends, request, result, why = "" }: Partial<WouldSend>,
): End {
  const isStaged = accepted === "staged" || accepted === "held";
  if (isStaged && result === "held")
    return ["held", `it is held for a person: ${heldBecause(why as HeldWhy, emptied ?? [])}`];
  if (isStaged && result === "sent" && request !== "POST") {
    const how = request === "PUT" ? "PUT" : "GET, then PUT";
    return ends === true
      ? ["terminate", `the relation is terminated (${how})`]
      : ["update", `it is updated (${how})`];
  }
  const names = { sent: "POST", skipped: why, rejected: "rejected", held: "" };
  const name = isStaged && result !== undefined ? names[result] : accepted;
  return ENDS[name] ?? ["skip", "nothing is sent"];
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
