/** Every relation that is known, with its state: read from Redis a page at a time. No values of persons. */
import { crmsync } from "../base/command.ts";
import type { Variant } from "../core/service-spec/business-relation.ts";
import type { LetterDetails } from "../core/state/dead-letters.ts";
import { repairedAt, type Difference } from "../core/state/differences.ts";
import { RECORD_PLACES, type KeptRecord } from "../core/state/known-records.ts";
import { deadLetterId, REMEDIES } from "../core/sync/dead-letter.ts";
import { DRIFT, type DriftKind } from "../core/sync/drift.ts";
import { isOurs } from "../core/sync/known.ts";
import { heldBecause, type Change } from "../core/sync/record.ts";
import { inWords } from "../core/sync/service-reply.ts";
import { rejectionOf, type About } from "../core/sync/told.ts";
import { takeReadings, type Readings } from "../operate/status/readings.ts";
import { stopsIn } from "../operate/status/stops.ts";
import type { Stores } from "../operate/status/stores.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import {
  RELATION_STATES,
  leadingOf,
  notKnownText,
  problemsText,
  provenBy,
  stateOfChange,
  stateOfRow,
  type RelationStateName,
} from "./state-of.ts";

/** How one relation stands. Times in ms; undefined: not known, or none. */
export interface RelationState {
  /** Undefined: of a rejected event that told none. */
  readonly crmCode: string | undefined;
  /** The record of the CRM, such as `contact/7`, where its name is kept. */
  readonly record: string | undefined;
  readonly type: Variant | undefined;
  readonly state: RelationStateName;
  /** What else there is of it: a rejected record may have an older change that is held. */
  readonly also: readonly RelationStateName[];
  /** Of a relation on the service: since when it differs, when crmsync created it, or else when that was confirmed last. */
  readonly since: number | undefined;
  /** A short sentence; "": nothing is to be said. */
  readonly why: string;
  /** The next step, and whose turn it is; "": none. */
  readonly next: string;
  readonly confirmedAt: number | undefined;
  readonly confirmedBy: ReturnType<typeof provenBy>;
  readonly owner: string | undefined;
  readonly source: string | undefined;
}

/** What is wanted; absent: all. */
export interface RelationFilter {
  readonly states?: readonly RelationStateName[] | undefined;
  readonly type?: Variant | undefined;
  readonly source?: string | undefined;
  readonly owner?: string | undefined;
  /** Only what is so since this time, or was confirmed since, ms. */
  readonly since?: number | undefined;
  /** Part of the crmCode or of the record's name, in any case. */
  readonly search?: string | undefined;
}

/** Where records stand, in the order in which they are read: a record is listed where it is found first. */
const PLACES = ["letters", ...RECORD_PLACES, "differences"] as const;
type Place = (typeof PLACES)[number];

/** Where a listing goes on: the place, and Redis' cursor in it. */
export interface ListCursor {
  readonly place: Place;
  readonly cursor: string;
}

/** Of `<place>:<cursor>`, as an address may have it; undefined for anything else. */
export function cursorIn(text: string): ListCursor | undefined {
  const [, name = "", cursor = ""] = /^(\w+):(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  const place = PLACES.find((one) => one === name);
  return place && { place, cursor };
}

/** Records read in one round trip. */
const PAGE = 500;

/** What Redis holds of one record; of an event that told no crmCode, the letter alone. */
interface Found extends Partial<Omit<KeptRecord, "crmCode">> {
  readonly crmCode: string | undefined;
  readonly letter?: LetterDetails | undefined;
  /** What a comparison has found of it, and nothing has repaired since. */
  readonly difference?: (Difference & { readonly export: string }) | undefined;
}

interface FoundPage {
  readonly found: readonly Found[];
  readonly next: ListCursor | undefined;
}

/** The relations that the filter wants, each once, a page at a time. */
export async function* listRelations(
  stores: Stores,
  filter: RelationFilter = {},
): AsyncGenerator<RelationState[]> {
  const listing = await openListing(stores, filter);
  const seen = new Set<string>();
  let page: Promise<FoundPage> | undefined = listing.read(listing.first, PAGE);
  while (page !== undefined) {
    const { found, next }: FoundPage = await page;
    // Redis reads the next page while this one is used. Its error is thrown when it is awaited.
    page = next && listing.read(next, PAGE);
    page?.catch(() => {});
    const fresh = found.filter(({ crmCode, letter }) => {
      const name = crmCode ?? ` ${letter?.id}`;
      return !seen.has(name) && seen.add(name);
    });
    const relations = await listing.tell(fresh);
    if (relations.length > 0) yield relations;
  }
}

/** Most records that are read for one page of the console. */
const MOST_LOOKED_AT = 20_000;

/**
 * A page for people.
 * @param from where the page before has ended; undefined: at the first one
 * @returns `next` undefined: this is the last page. It may have fewer relations than `most`, also none, when few match.
 */
export async function pageOfRelations(
  stores: Stores,
  filter: RelationFilter,
  { from, most }: { readonly from?: ListCursor | undefined; readonly most: number },
): Promise<{ readonly relations: RelationState[]; readonly next: ListCursor | undefined }> {
  const listing = await openListing(stores, filter);
  const relations: RelationState[] = [];
  let at: ListCursor | undefined = from ?? listing.first;
  let [looked, count] = [0, most];
  while (at !== undefined && relations.length < most && looked < MOST_LOOKED_AT) {
    const { place } = at;
    const { found, next } = await listing.read(at, count);
    const told = await listing.tell(found.filter((one) => listing.isListedAt(place, one)));
    relations.push(...told);
    // Where few match, more are read at once.
    count = told.length === 0 && found.length > 0 ? PAGE : most;
    looked += Math.max(found.length, 1);
    at = next;
  }
  return { relations, next: at };
}

/** How many relations were listed, and are in each state. One that is in two states counts in both. */
export interface RelationCounts {
  relations: number;
  readonly states: Record<RelationStateName, number>;
}

export const emptyCounts = (): RelationCounts => ({
  relations: 0,
  states: Object.fromEntries(RELATION_STATES.map((name) => [name, 0])) as RelationCounts["states"],
});

export function countInto(counts: RelationCounts, page: readonly RelationState[]): void {
  counts.relations += page.length;
  for (const { also, state } of page) for (const name of [state, ...also]) counts.states[name] += 1;
}

export async function countRelations(
  stores: Stores,
  filter: RelationFilter = {},
): Promise<RelationCounts> {
  const counts = emptyCounts();
  for await (const page of listRelations(stores, filter)) countInto(counts, page);
  return counts;
}

/** The places in which records of these states stand. */
function placesOf(states: readonly RelationStateName[] | undefined): Place[] {
  const wanted = new Set<Place>();
  for (const state of states ?? (["rejected", "waiting", "held", "unknown"] as const)) {
    if (state === "rejected") wanted.add("letters");
    else if (state === "differing") wanted.add("differences");
    else if (state === "held") wanted.add("held");
    else if (state === "waiting" || state === "retrying")
      for (const place of ["live", "bulk", "later"] as const) wanted.add(place);
    else for (const place of ["lost", "ledger", "differences"] as const) wanted.add(place);
  }
  return PLACES.filter((place) => wanted.has(place));
}

async function openListing(stores: Stores, filter: RelationFilter) {
  const readings = await takeReadings(stores);
  const shared = { ...readings, stop: stopsIn(readings)[0] };
  const places = placesOf(filter.states);
  /** Letters that are read in good time: their events may be large. */
  let fit: number | undefined;
  const [first = "ledger"] = places;
  const after = (place: Place): ListCursor | undefined => {
    const next = places[places.indexOf(place) + 1];
    return next && { place: next, cursor: "0" };
  };
  return {
    first: { place: first, cursor: "0" } as ListCursor,
    /** Whether a record is listed at this place, of all those in which it stands. */
    isListedAt: (place: Place, { change, letter, lostAt, mark, row }: Found): boolean => {
      // Of a lane's line and of what waits for later, a record is in one.
      const ofChange: Place[] = change?.held ? ["held"] : ["live", "bulk", "later"];
      const all: Place[][] = [
        letter === undefined && mark === undefined ? [] : ["letters"],
        change === undefined ? [] : ofChange,
        lostAt === undefined ? [] : ["lost"],
        row === undefined ? [] : ["ledger"],
        ["differences"],
      ];
      const own = all.find(([first]) => first !== undefined && places.includes(first));
      return own?.includes(place) === true;
    },
    read: async (at: ListCursor, most: number): Promise<FoundPage> => {
      const wanted = at.place === "letters" ? fit : most;
      const { fits, found, next } = await readPlace(stores, readings, at, wanted);
      fit = fits ?? fit;
      return { found, next: next === "0" ? after(at.place) : { place: at.place, cursor: next } };
    },
    tell: async (found: readonly Found[]): Promise<RelationState[]> => {
      const told: RelationState[] = [];
      for (const one of await withDifferences(found, stores, readings)) {
        const about = aboutOf(one, stores);
        const state = tell(one, shared, about && (await about));
        if (isWanted(state, filter)) told.push(state);
      }
      return told;
    },
  };
}

/** With what comparisons of each kind of export have found of them. */
async function withDifferences(
  found: readonly Found[],
  { differences }: Stores,
  { comparedExports }: Readings,
): Promise<readonly Found[]> {
  const crmCodes = found.map(({ crmCode = "" }) => crmCode);
  let all = found;
  for (const [kind, { at, name }] of Object.entries(comparedExports)) {
    const known = await differences.of(kind, crmCodes);
    if (known.every((one) => one === undefined)) continue;
    all = all.map((one, n) => {
      const difference = known[n];
      return difference === undefined || repairedAt(one.row, at) !== undefined
        ? one
        : { ...one, difference: { ...difference, export: name } };
    });
  }
  return all;
}

async function readPlace(
  stores: Stores,
  { comparedExports }: Readings,
  { cursor, place }: ListCursor,
  most: number | undefined,
): Promise<{ readonly found: readonly Found[]; readonly next: string; readonly fits?: number }> {
  const { deadLetters, differences, knownRecords } = stores;
  if (place === "letters") {
    const { letters, most: fits, next } = await deadLetters.detailsFrom(cursor, most);
    return { found: await readLetters(stores, letters), next, fits };
  }
  if (place === "differences") {
    // The cursor names the kind of export, too.
    const kinds = Object.keys(comparedExports);
    const [n = "0", inKind = "0"] = cursor.split(".");
    const kind = kinds[Number(n)];
    if (kind === undefined) return { found: [], next: "0" };
    const { crmCodes, next } = await differences.codes(kind, inKind, most ?? PAGE);
    const isLast = next === "0" && Number(n) + 1 >= kinds.length;
    const after = next === "0" ? `${Number(n) + 1}.0` : `${n}.${next}`;
    return { found: await knownRecords.read(crmCodes), next: isLast ? "0" : after };
  }
  const { next, records } = await knownRecords.page(place, cursor, most ?? PAGE);
  // Few have a letter here: those that had one before were listed with it.
  const found = records.map(async (one) =>
    one.mark === undefined ? one : { ...one, letter: await deadLetters.detailsOf(one.crmCode) },
  );
  return { found: await Promise.all(found), next };
}

/** The records of dead letters; of an event that told no crmCode, the letter alone. */
async function readLetters(
  { knownRecords }: Stores,
  letters: readonly LetterDetails[],
): Promise<Found[]> {
  const byCode = new Map(letters.map((letter) => [letter.crmCode, letter]));
  const records = await knownRecords.read([...byCode.keys()].filter((code) => code !== undefined));
  const nameless = letters.filter(({ crmCode }) => crmCode === undefined);
  return [
    ...records.map((one) => ({ ...one, letter: byCode.get(one.crmCode) })),
    ...nameless.map((letter) => ({ crmCode: undefined, letter })),
  ];
}

/** What all records share: `stop` keeps all of them from being sent. */
type Standing = Pick<Readings, "bulkPause" | "now" | "warmUp"> & {
  readonly stop: ReturnType<typeof stopsIn>[number] | undefined;
};

type Told = Pick<RelationState, "next" | "since" | "state" | "why">;

function tell(found: Found, readings: Standing, about: About | undefined): RelationState {
  const { change, crmCode, difference, heard, letter, mark, row } = found;
  const proof = row && { confirmedAt: row.provedAt || undefined, confirmedBy: provenBy(row) };
  const { subject = letter?.subject, source = letter?.source } =
    about ?? heard ?? row?.without ?? {};
  const order = mark?.order ?? "";
  const leading = leadingOf(change && { order: change.status.order }, letter && { order });
  const ofLetter = letter && rejected(letter);
  const ofChange = change && waiting(change, readings);
  const [first = ofLedger(found, readings), other] =
    leading === "letter" ? [ofLetter, ofChange] : [ofChange, ofLetter];
  const also = [
    ...(other === undefined ? [] : [other.state]),
    ...(difference === undefined || difference.kind === "foreign" ? [] : (["differing"] as const)),
  ];
  return {
    crmCode,
    record: subject === "" ? undefined : subject,
    type: row?.variant ?? change?.fields?.variant,
    ...first,
    also,
    confirmedAt: undefined,
    confirmedBy: undefined,
    ...proof,
    owner: about?.owner ?? difference?.owner,
    source,
  };
}

/** The record of the CRM and its owner, as they are sealed beside what waits, or beside the dead letter. */
function aboutOf(
  { change, crmCode, mark }: Found,
  { told }: Stores,
): Promise<About | undefined> | undefined {
  const sealed = change?.about ?? mark?.about;
  if (sealed === undefined || crmCode === undefined) return undefined;
  // A key that this process does not have, or a damaged value, hides only the names.
  return told.openAbout(deadLetterId(crmCode), sealed).catch(() => undefined);
}

function rejected(letter: LetterDetails): Told {
  const { problems = [] } = rejectionOf(letter);
  return {
    state: "rejected",
    since: letter.firstAt,
    why: problemsText(letter.reason, problems),
    next: REMEDIES[letter.reason] ?? "",
  };
}

function waiting(change: Change, { bulkPause, now, stop }: Standing): Told {
  const { due, held, lane, since, taken, tries } = change;
  const takenUntil = taken !== undefined && taken.until > now ? taken.until : undefined;
  const state = stateOfChange({ heldSince: held?.at, dueAt: due, takenUntil }, now);
  switch (state) {
    case "held":
      return {
        state,
        since: held?.at,
        why: heldBecause(held?.why ?? "limit", held?.fields ?? []),
        next: "An operator releases or drops it.",
      };
    case "retrying":
      return {
        state,
        since,
        why: tries?.why === undefined ? "its last reply must be confirmed" : inWords(tries.why),
        next: `crmsync tries it again at ${clockTime(due ?? now)}.`,
      };
    case "sending":
      return { state: "waiting", since, why: "it is being sent now", next: "" };
    case "waiting": {
      if (stop !== undefined)
        return {
          state,
          since,
          why: `sending is stopped: ${stop.says}`,
          next: `The page Now, or ${crmsync`status`}, says how to end that.`,
        };
      const isPaused = lane === "bulk" && bulkPause !== undefined;
      return isPaused
        ? { state, since, why: "imports are paused", next: "An operator resumes them." }
        : { state, since, why: "it waits for its turn in the quota", next: "crmsync sends it." };
    }
  }
}

const ASKED = "Its next change, or a comparison of the whole CRM, asks the service.";

function ofLedger({ difference, lostAt, readAt, row }: Found, { warmUp }: Standing): Told {
  if (lostAt !== undefined)
    return {
      state: "unknown",
      since: lostAt,
      why: "Redis lost its change, or a late request may have replaced it",
      next: "Send the record again.",
    };
  const since = row?.provedAt || undefined;
  const state = stateOfRow(row, warmUp.state === "done");
  if (difference?.kind === "foreign" && state === "on the service" && !isOurs(row))
    return {
      state: "foreign",
      since: difference.since,
      why: "nothing of the CRM has led to it",
      next: repairOf("foreign"),
    };
  const differs =
    difference && difference.kind !== "foreign" && differing(difference, difference.kind);
  switch (state) {
    case "on the service": {
      const why = isOurs(row) ? "" : "no event of it has come yet";
      return { state, since: row?.since ?? since, why, next: "", ...differs };
    }
    case "ended":
      return { state, since, why: "terminated at the service", next: "", ...differs };
    case "absent":
      return row?.orders.is === "terminated"
        ? { state: "ended", since, why: "the service does not have it", next: "", ...differs }
        : { state: "unknown", since, why: "the service does not have it", next: ASKED, ...differs };
    case "unknown":
      return { state, since, ...notKnownText(readAt), ...differs };
  }
}

/** What a comparison has found of it. */
function differing(
  { export: of, fields, since }: NonNullable<Found["difference"]>,
  kind: DriftKind,
): Pick<Told, "next" | "since" | "why"> {
  const named = fields.length === 0 ? "" : ` (${fields.join(", ")})`;
  return {
    since,
    why: `differs from ${of} since ${clockTime(since)}: ${DRIFT[kind]}${named}`,
    next: repairOf(kind),
  };
}

/** What is to be done about a difference. */
export const repairOf = (kind: DriftKind | "foreign"): string =>
  // No plan ends relations unless a person has asked for that.
  kind === "foreign" || kind === "extra"
    ? "A person decides whether it is to end, by a comparison."
    : CANNOT_BE_USED.has(kind)
      ? "Correct the record in the CRM, or the mapping."
      : "Its next change, or the plan of the comparison, repairs it.";

const CANNOT_BE_USED: ReadonlySet<string> = new Set(["invalid", "unmappable", "duplicate"]);

function isWanted(one: RelationState, filter: RelationFilter): boolean {
  const { owner, search, since, source, states, type } = filter;
  const { also, confirmedAt = 0, crmCode = "", record = "", state } = one;
  const text = search?.toLowerCase() ?? "";
  return (
    (states === undefined || [state, ...also].some((name) => states.includes(name))) &&
    (type === undefined || one.type === type) &&
    (source === undefined || one.source === source) &&
    (owner === undefined || one.owner === owner) &&
    (since === undefined || Math.max(one.since ?? 0, confirmedAt) >= since) &&
    (text === "" || [crmCode, record].some((name) => name.toLowerCase().includes(text)))
  );
}
