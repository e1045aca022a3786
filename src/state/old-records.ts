/**
 * How release 2 of the state kept a record: read once, when it is migrated (migrate-to-records.ts), and deleted
 * with that.
 */
import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";
import type { Variant } from "../service-spec/business-relation.ts";
import { rowWithoutProof, type LedgerRow, type Orders } from "../sync/ledger-row.ts";
import type { Doubt, LetterMark, RunCount, Staged } from "../sync/record.ts";
import type { WantedStatus } from "../sync/mapped.ts";
import { objectIn } from "./store.ts";
import { DamagedValue, isBytes, keyIdOf, keyIdOfBytes, type Sealing } from "./sealing.ts";

/** What payloads and events have in common: dictionary 1 of their compression. */
const DICTIONARY_TEXT = [
  `"entrepreneurial_activity","electronic_platform","historical_client","crs_compliant","Married","Single",`,
  `"Foundation","Household","Insurance contract","Fund","Trust","SCSp","Sarl","SA","GmbH","Ltd",`,
  `{"type":"Company","name":"","countryOfOperation":"","incorporationDate":"20","vatNumber":"`,
  `","industrySector":"","complexityOfBoStructure":"","legalForm":"","listedCompany":false`,
  `,"regulatedEntity":true,"stateOwnedEntity":false,"address":"","postalCode":"`,
  `","maidenName":"","placeOfBirth":"","maritalStatus":"","language":"fr","crmId":"","service":["`,
  `"],"branch":["","taxIdentificationNumber":"","bankAccountCountry":"LU","originOfBusinessRelation":"`,
  `","crsStatus":"","dmsLinkUrl":"https://","relationshipStatus":"Prospect","relationStatus":"terminated`,
  `","merged":["","fetch":"","sequence":"00000000","datacontenttype":"application/json","dataschema":"`,
  `{"type":"Person","firstName":"","lastName":"","nationality":"LU","birthDate":"19","address":"`,
  `","postalCode":"L-","city":"Luxembourg","countryOfResidence":"LU","language":"","phoneNumber":"+352`,
  `","email":"@example.com","relationshipStatus":"Client","relationStatus":"active","amlFrequency":"ongoing`,
  `","crmCode":"","wealthSource":["salaries_remuneration","inheritance"]}\0`,
  `{"specversion":"1.0","id":"","source":"/crm/salesforce/crm/hubspot","type":"crm.record.deleted`,
  `","type":"crm.record.created","subject":"company/account/person/contact/`,
  `","time":"2026-11-20T10:00:00.000Z","lane":"bulk","data":{"record":{"crmCode":"","firstName":"`,
  `","lastName":"","birthDate":"19","countryOfResidence":"LU","nationality":"LU","address":"`,
  `","postalCode":"L-","city":"","email":"","phoneNumber":"+352","wealthSource":["inheritance"]}}}`,
  `\0{"specversion":"1.0","id":"","source":"/crm/","type":"crm.record.updated","subject":"contact/`,
  `","time":"2026-11-2T0:00.000Z","lane":"live","data":{"record":{"type":"Person","crmCode":"`,
].join("");
const DICTIONARY = Buffer.from(DICTIONARY_TEXT);
const NOT_COMPRESSED = 0;
const MOST_BYTES = 64 * 1024 * 1024;

/** Stands between payload and event. */
const SEPARATOR = "\0";

const expand = promisify<Buffer, object, Buffer>(inflateRaw);

const damaged = (how: string) => new DamagedValue(`a value of the older release ${how}`);

/** "": not there. */
interface Texts {
  readonly payload: string;
  readonly event: string;
}

/** @throws DamagedValue, UnknownKey */
async function unpack(
  value: Buffer | undefined,
  single: keyof Texts,
  crmCode: string,
  sealing: Sealing,
): Promise<Texts> {
  if (value === undefined) return { payload: "", event: "" };
  if (!isBytes(value)) {
    // State version 1: one text, not packed.
    const text = await sealing.open(value.toString(), crmCode);
    return { payload: "", event: "", [single]: text };
  }
  const packed = sealing.openBytes(value, crmCode);
  const [number, body] = [packed[0], packed.subarray(1)];
  const options = { dictionary: DICTIONARY, maxOutputLength: MOST_BYTES };
  const opened =
    number === NOT_COMPRESSED ? body : await expand(body, options).catch(() => undefined);
  const [payload, ...event] = (opened ?? "").toString().split(SEPARATOR);
  if (payload === undefined || event.length === 0) throw damaged("cannot be unpacked");
  return { payload, event: event.join(SEPARATOR) };
}

/** Id of the key that an old value is sealed with; undefined: with none. */
export function keyIdOfOld(value: Buffer | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (isBytes(value)) return keyIdOfBytes(value);
  const text = value.toString();
  return text.startsWith("eyJ") ? keyIdOf(text) : undefined;
}

/** Fields of a staged hash by name. Those that lay in pieces (`p`, `p1`, …) are whole. */
export type OldFields = ReadonlyMap<string, Buffer>;

export function wholeFields(found: Readonly<Record<string, Buffer>>): OldFields {
  const fields = new Map(Object.entries(found));
  for (const name of ["p", "ev", "hi"]) {
    const pieces: Buffer[] = [];
    for (let at = name; ; at = `${name}${pieces.length}`) {
      const piece = fields.get(at);
      if (piece === undefined) break;
      pieces.push(piece);
    }
    if (pieces.length > 0) fields.set(name, Buffer.concat(pieces));
  }
  return fields;
}

/** An order lay in a staged hash as `<time>~<number>`. */
function wholeOrder(short: string): string {
  const [, time, number = ""] = /^(.*)~(\d+)$/s.exec(short) ?? [];
  return time === undefined ? short : `${time}000000Z\t\t${number.padStart(16, "0")}`;
}

/** Where a record stood beside its hash, ms. */
export interface OldPlaces {
  readonly since: number | undefined;
  readonly heldAt: number | undefined;
  readonly verifyAt: number | undefined;
  /** JSON of its failed tries: since, reason. */
  readonly retried: string | null;
  /** JSON of what was to be verified. */
  readonly proof: string | null;
}

interface At {
  readonly crmCode: string;
  readonly sealing: Sealing;
  readonly now: number;
  readonly nowUs: number;
  /** How far the clock of the older release was ahead, ms. */
  readonly ahead: number;
}

/**
 * The record's change as it is kept from now on; undefined: none waits, and nothing is to be verified.
 * @throws DamagedValue, UnknownKey
 */
export async function stagedOf(
  fields: OldFields,
  places: OldPlaces,
  at: At,
): Promise<Staged | undefined> {
  if (fields.has("v")) return waitingOf(fields, places, at);
  const heldUntil = heldUntilIn(fields, at);
  const { verifyAt } = places;
  const proven = places.proof === null ? undefined : await provenOf(places, at, places.proof);
  const freeAt = heldUntil ?? 0;
  if (proven !== undefined) return { ...proven, due: Math.max(proven.due, freeAt), heldUntil };
  if (verifyAt === undefined && heldUntil === undefined) return undefined;
  return {
    version: at.nowUs,
    phase: "left",
    lane: "live",
    due: Math.max(verifyAt ?? 0, freeAt),
    since: at.now,
    time: at.now,
    firstTime: at.now,
    fields: undefined,
    status: { order: "", is: "mapped" },
    late: verifyAt === undefined ? undefined : true,
    heldUntil,
  };
}

const COUNTS: Readonly<Record<Exclude<RunCount, "refused">, string>> = {
  tries: "n",
  heals: "h",
  forbidden: "b",
  unconfirmed: "c",
  reads: "g",
};

async function waitingOf(fields: OldFields, places: OldPlaces, at: At): Promise<Staged> {
  const { now, nowUs } = at;
  const text = (name: string) => fields.get(name)?.toString();
  const number = (name: string) => numberIn(text(name));
  const order = wholeOrder(text("o") ?? "");
  const time = number("t");
  if (order === "" || time === undefined) throw damaged("lacks its order or its time");
  const heldUntil = heldUntilIn(fields, at);
  const isHeld = text("hv") === text("v");
  const since = Math.min(places.since ?? places.heldAt ?? now, now);
  const counts = Object.entries(COUNTS).flatMap(([name, field]) => {
    const count = number(field);
    return count === undefined ? [] : [[name, count] as const];
  });
  const kept = text("kv");
  const keptAt = number("kt");
  return {
    version: nowUs,
    phase: isHeld ? "held" : "waits",
    lane: text("l") === "bulk" ? "bulk" : "live",
    due: heldUntil ?? since,
    since,
    time,
    firstTime: number("t0") ?? time,
    ...(await registersIn(fields, order, at)),
    fingerprint: text("fp") || undefined,
    eventKeys: text("ek")?.split(" "),
    trace: text("tr"),
    heldWhy: isHeld ? "limit" : undefined,
    heldAt: isHeld ? (places.heldAt ?? now) : undefined,
    approved: text("ok") === "1" || undefined,
    counts: counts.length === 0 ? undefined : Object.fromEntries(counts),
    firstTryAt: number("n0"),
    failure: failureIn(places.retried),
    doubt: text("d") as Doubt | undefined,
    // Its worker was killed, or an earlier request is to be verified.
    late: fields.has("lt") || fields.has("tv") || places.verifyAt !== undefined || undefined,
    kept: kept === undefined || keptAt === undefined ? undefined : { values: kept, at: keptAt },
    heldUntil,
  };
}

function heldUntilIn(fields: OldFields, { ahead, now }: At): number | undefined {
  const until = (numberIn(fields.get("tu")?.toString()) ?? 0) - ahead;
  return until > now ? until : undefined;
}

function numberIn(text: string | undefined): number | undefined {
  const number = Number(text ?? Number.NaN);
  return Number.isFinite(number) ? number : undefined;
}

function failureIn(text: string | null): Staged["failure"] {
  const { reason, since } = (objectIn(text ?? "") ?? {}) as Partial<NonNullable<Staged["failure"]>>;
  return reason === undefined || since === undefined ? undefined : { reason, since };
}

/** What an old state said of its fields and its events. "": none. */
interface OldChange {
  readonly order: string;
  /** Of the event that brought the fields, and of `event`; absent: `order`. */
  readonly fieldsOrder?: string;
  readonly eventOrder?: string;
  readonly payload?: string;
  readonly event: string;
  readonly variant?: Variant | undefined;
  /** The newest event, where `event` is that of the fields. */
  readonly newestEvent?: string;
  /** What was read of the service. */
  readonly found?: string;
}

async function registersIn(fields: OldFields, order: string, { crmCode, sealing }: At) {
  const text = (name: string) => fields.get(name)?.toString();
  const [first, second] = await Promise.all([
    unpack(fields.get("p"), "payload", crmCode, sealing),
    unpack(fields.get("ev"), "event", crmCode, sealing),
  ]);
  // What was read of the service took the place of the fields.
  const isFound = text("pf") === "1";
  return registersOf(
    {
      order,
      fieldsOrder: wholeOrder(text("of") ?? order),
      eventOrder: wholeOrder(text("oe") ?? order),
      variant: variantIn(text("k")),
      payload: isFound ? "" : first.payload,
      found: isFound ? first.payload : "",
      event: first.event === "" ? second.event : first.event,
      newestEvent: first.event === "" ? "" : second.event,
    },
    (text("st") ?? "mapped") as WantedStatus,
    crmCode,
    sealing,
  );
}

async function registersOf(
  change: OldChange,
  is: WantedStatus,
  crmCode: string,
  sealing: Sealing,
): Promise<Pick<Staged, "fields" | "found" | "status">> {
  const { event, newestEvent = "", order, payload = "", variant } = change;
  const { eventOrder = order, fieldsOrder = order } = change;
  const seal = (text: string) => sealing.seal(text, crmCode);
  const hasFields = payload !== "" && fieldsOrder !== "";
  const isOther = order !== fieldsOrder;
  const found = change.found || (hasFields ? "" : payload);
  // Without an order of its own, the event of the fields is not the newest one.
  const newest = newestEvent || (isOther && eventOrder === order ? event : "");
  const status = hasFields ? newest : newestEvent || event;
  return {
    fields: hasFields
      ? {
          order: fieldsOrder,
          payload: await seal(payload),
          variant,
          event: await seal(event),
          writer: undefined,
        }
      : undefined,
    status: {
      order,
      is,
      ...(status !== "" && { event: await seal(status) }),
      ...(hasFields && isOther && eventOrder === order && { hasRecord: true }),
    },
    found: found === "" ? undefined : await seal(found),
  };
}

interface OldProof {
  /** `<exists>|<fingerprint>|<terminated>` */
  readonly proof: string;
  readonly at: number;
  /** Sealed JSON of the state. */
  readonly wanted: string;
}

type OldWanted = OldChange & { readonly status: WantedStatus };

/** What was proven, and is verified once; undefined when it cannot be read: then only the mark counts. */
async function provenOf(
  { verifyAt }: OldPlaces,
  at: At,
  text: string,
): Promise<Staged | undefined> {
  const { crmCode, now, nowUs, sealing } = at;
  const stored = objectIn(text) as OldProof | undefined;
  const wanted = await sealing.open(stored?.wanted ?? "", crmCode).then(
    (open) => objectIn(open) as OldWanted | undefined,
    (error: unknown) => {
      if (error instanceof DamagedValue) return undefined;
      throw error;
    },
  );
  if (stored === undefined || wanted === undefined) return undefined;
  const [exists, fingerprint] = stored.proof.split("|");
  return {
    version: nowUs,
    phase: "proven",
    lane: "live",
    due: verifyAt ?? now,
    since: stored.at,
    time: stored.at,
    firstTime: stored.at,
    ...(await registersOf(wanted, wanted.status, crmCode, sealing)),
    late: true,
    proof: {
      exists: exists === "-1" ? undefined : exists === "1",
      fingerprint: fingerprint || undefined,
    },
    provedAt: stored.at,
  };
}

/** The part of an old proof that is sealed. */
export const sealedInProof = (text: string): string =>
  (objectIn(text) as OldProof | undefined)?.wanted ?? "";

interface OldRow {
  readonly e?: 1 | 0 | -1;
  readonly u?: 1;
  readonly f?: string;
  readonly x?: 1;
  readonly k?: string;
  readonly w?: string;
  readonly wf?: string;
  readonly ws?: WantedStatus;
  readonly s?: number;
}

/** A row of the ledger, or what was left of an erased one; undefined: it is in the new form. */
export function rowOfOld(text: string): LedgerRow | "damaged" | undefined {
  const row: (OldRow & { readonly epoch?: number }) | undefined = objectIn(text);
  if (row === undefined) return "damaged";
  if (row.epoch !== undefined) return undefined;
  return {
    ...rowWithoutProof(false),
    exists: row.e === undefined || row.e === -1 ? undefined : row.e === 1,
    // Whether a list or an answer has shown it was not noted.
    ...(row.e === 0 && { byList: true }),
    uncertain: row.u === 1,
    fingerprint: row.f,
    terminated: row.x === 1,
    variant: variantIn(row.k),
    orders: ordersOfOld(row),
    provedAt: row.s ?? 0,
  };
}

const ordersOfOld = ({ w = "", wf = w, ws = "mapped" }: OldRow): Orders => ({
  status: w,
  fields: wf,
  is: ws,
});

function variantIn(text: string | undefined): Variant | undefined {
  if (text === undefined || text === "") return undefined;
  return text.startsWith("P") ? "Person" : "Company";
}

interface OldLetter {
  readonly details: string;
  readonly event: string;
  readonly order: string;
  readonly eo?: string;
  readonly of?: string;
  readonly st?: WantedStatus;
  readonly first: number;
  readonly times: number;
}

/** A dead letter and its mark, as they are stored from now on; undefined when somebody has damaged it. */
export function letterOfOld(
  text: string,
): { readonly value: string; readonly mark: LetterMark } | undefined {
  const letter = objectIn(text) as OldLetter | undefined;
  const about = objectIn(letter?.details ?? "") as Pick<LetterMark, "reason"> | undefined;
  if (letter === undefined || about === undefined) return undefined;
  const { details, eo, event, first, of: fields, order, st = "mapped", times } = letter;
  return {
    value: JSON.stringify({ details, event, first, times }),
    mark: { order, is: st, event: eo ?? order, fields, reason: about.reason },
  };
}

/** Of a change that cannot be opened. */
export function markOfDamaged(fields: OldFields): LetterMark {
  const order = wholeOrder(fields.get("o")?.toString() ?? "");
  const is = (fields.get("st")?.toString() ?? "mapped") as WantedStatus;
  return { order, is, event: order, fields: "", reason: "defect" };
}
