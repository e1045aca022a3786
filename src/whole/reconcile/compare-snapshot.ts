/** A comparison with all that follows from it: guards, report, plan, and the numbers for the status. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { basename, join } from "node:path";
import type { ComparisonSource } from "../../core/state/comparisons.ts";
import type { ComparedExport } from "../../core/state/differences.ts";
import { UserError } from "../../base/user-error.ts";
import { requestsFor as waitingRequests } from "../../operate/status/stops.ts";
import { takeReadings } from "../../operate/status/readings.ts";
import { DRIFT_KINDS } from "../../core/sync/drift.ts";
import { doubtsOf, type GuardOptions, type Stop, stopFor, terminationsIn } from "./guards.ts";
import { absentObjects } from "./ingest.ts";
import { replaceOlderPlans, requireNotBegun } from "./interrupted-plans.ts";
import { hashOfList } from "./list-service.ts";
import { keepDifferences } from "./keep-differences.ts";
import type { OpenSnapshot } from "./open-snapshot.ts";
import { type OpenPlan, type PlanEntry, type PlanHeader, writePlan } from "./plan-file.ts";
import { readEvents, type RecordOptions } from "./read-events.ts";
import { writeReport } from "./report.ts";
import { type Comparison, type ComparisonProgress, runComparison } from "./run-comparison.ts";
import { type Session, viewOf } from "./session.ts";
import type { Summary } from "./summary.ts";
import { fieldsIn, type RecordRow, type WorkFile } from "./work-file.ts";
import { digestOf } from "../../core/state/keys.ts";
import { type Keeps, keptFieldsOf } from "../../core/sync/keeps.ts";

/** In the order of the snapshot, so that carrying them out reads it once; terminations without a record last. */
function* planEntries(
  work: WorkFile,
  terminateMissing: boolean,
  keeps: Keeps,
): Generator<PlanEntry> {
  for (const row of work.planned()) {
    const { code, fingerprint, kind, position, unclear, was } = row;
    if (position === null && !terminateMissing) return;
    yield {
      code,
      kind: kind as PlanEntry["kind"],
      position,
      fields: position === null ? ["relationStatus"] : fieldsIn(row.fields),
      ...(unclear !== null && { keeps: fieldsIn(unclear) }),
      was: was ?? "",
      wants: fingerprint ?? "",
      requests: requestsOf(row, keeps),
    };
  }
}

/** One to read the relation, one to write it. */
const WITH_READ = 2;

/** A termination without the record's fields reads the relation first, and so does an update that keeps fields. */
function requestsOf({ fingerprint, kind, unclear, variant }: RecordRow, keeps: Keeps): number {
  const isUpdate = kind !== "missing";
  const keepsFields = unclear !== null || keptFieldsOf(variant ?? undefined, keeps) !== undefined;
  return fingerprint === null || (isUpdate && keepsFields) ? WITH_READ : 1;
}

/** Exports that differ only in a date or a number are of one kind. */
export const kindOfFile = (path: string): string => basename(path).replaceAll(/\d+/g, "#");

/** A kind as comparisons note it: a hash, from which the file's name cannot be read. */
export const notedKind = (kind: string): string => digestOf(kind).slice(0, 8);

const HOUR_MS = 3_600_000;

/** The clock of the machine that made the export may be ahead of Redis' clock by so much, ms. */
const CLOCKS_DIFFER_MS = 60_000;

/** So many crmCodes are listed when a plan would terminate too many. */
const MOST_LISTED = 50;

export interface CompareOptions extends RecordOptions, GuardOptions {
  /** When the snapshot was taken, ms; undefined: as its file tells. */
  readonly asOf?: number | undefined;
  /** What began the comparison. */
  readonly source: ComparisonSource;
  /** The person, of a command. */
  readonly by?: string;
  /** Exports of one kind follow each other; undefined: names that differ only in numbers are of one kind. */
  readonly kind?: string;
  /** Where to write the plan; undefined: into the session's folder. */
  readonly plan?: string;
  /** For so long the plan can be begun, hours. */
  readonly maxAge: number;
  /** Where the plan says that the snapshot lies; undefined: where it is now. */
  readonly snapshotPath?: string;
  /** Where to write the report; undefined: nowhere. */
  readonly report?: string;
  readonly showValues?: true;
}

/** What a comparison was made with: its kind as comparisons note it, and when its snapshot was taken. */
type Made = CompareOptions & { readonly asOf: number; readonly kind: string };

/** What carrying the plan out would take. */
export interface Outlook {
  /** Requests that the comparison has spent. */
  readonly spent: number;
  /** Requests that the plan needs. */
  readonly requests: number;
  readonly terminations: number;
  /** Those of them that TERMINATE_LIMIT would hold for a person, if the plan began now. */
  readonly held: number;
  readonly remaining: number;
  readonly limit: number;
  /** When the plan would be carried out, if it began now, ms. */
  readonly endsAt: number | undefined;
}

export interface Findings {
  readonly summary: Summary;
  readonly outlook: Outlook;
  /** Undefined when nothing is to be done, and when a guard stopped it. */
  readonly plan: OpenPlan | undefined;
  readonly stop: Stop | undefined;
  /** The first crmCodes that a stopped plan would terminate. */
  readonly terminations: readonly string[];
  /** Since when what differs is known; undefined: a guard or another mapping makes it mean nothing. */
  readonly differences: ComparedExport | undefined;
}

/** @throws UserError; what was listed is then kept for the next try. */
export async function compareSnapshot(
  session: Session,
  snapshot: OpenSnapshot,
  options: CompareOptions,
  progress: ComparisonProgress,
): Promise<Findings> {
  const startedAt = performance.now();
  const { asOf = snapshot.takenAt } = options;
  requirePast(session, options);
  const kind = kindOf(snapshot, options);
  await requireNotBegun(session.stores, options.plan, { kind, asOf });
  const comparison = await runComparison(session, snapshot, { ...options, asOf }, progress);
  const { summary, work } = comparison;
  try {
    const { terminateMissing = false } = options;
    const entries = () => planEntries(work, terminateMissing, session.mapping.keeps);
    const stop = stopFor(summary, options, {
      emptyObjects: emptyObjectsOf(snapshot),
      absentObjects: absentObjects(work, session.mapping),
    });
    if (options.report !== undefined) {
      const values = options.showValues
        ? await valuesOf(session, snapshot, options, work)
        : undefined;
      await writeReport(options.report, work, values);
    }
    const requests = entries().reduce((sum, entry) => sum + entry.requests, 0);
    const outlook = await outlookOf(session, comparison, options, requests);
    const made = { ...options, kind, asOf: asOfIn(work) };
    await audit(session, snapshot, made, comparison, stop);
    const doubts = [...new Set(doubtsOf(summary, options.accept).map(({ field }) => field))];
    const isPlanned = stop === undefined && requests > 0;
    const plan = isPlanned
      ? await planFor(
          session,
          snapshot,
          made,
          { doubts, foreign: summary.foreign, requests },
          entries(),
        )
      : undefined;
    if (plan === undefined) snapshot.listing?.remove();
    const tookMs = Math.round(performance.now() - startedAt);
    const isKept = stop === undefined || stop.why === "terminations";
    const differences =
      session.deployed === undefined
        ? await remember(session, snapshot, made, { plan, stop, summary, tookMs, isKept, work })
        : undefined;
    // Of two exports by standard input it is not known whether they are of one kind.
    const isOfKind =
      stop === undefined && snapshot.path !== undefined && session.deployed === undefined;
    if (isOfKind) await replaceOlderPlans(session.stores, made);
    const terminations = stop?.why === "terminations" ? firstTerminations(entries()) : [];
    return { summary, outlook, plan, stop, terminations, differences };
  } finally {
    work.remove();
  }
}

/**
 * Refuses a time in the future, such as a local time that was given as UTC: the snapshot would replace live
 * changes that came after it.
 */
function requirePast({ stores }: Session, { asOf = 0 }: CompareOptions): void {
  const now = stores.clock.now();
  if (asOf <= now + CLOCKS_DIFFER_MS) return;
  throw new UserError(
    `as-of is ${new Date(asOf).toISOString()}, and it is ${new Date(now).toISOString()} now: say when the export began, with the right zone. Nothing was sent`,
  );
}

/** All that came by standard input is of one kind. */
const kindOf = ({ path = "" }: OpenSnapshot, { kind = kindOfFile(path) }: CompareOptions): string =>
  notedKind(kind);

/** Longest name of a file that is noted. */
const NAME_MAX = 60;

/** What was compared, for people: the CRM that was listed, or the file's name without its folder. */
const nameOf = (
  { listing, path }: OpenSnapshot,
  { object, snapshotPath = path }: CompareOptions,
): string =>
  listing === undefined
    ? basename(snapshotPath ?? "standard input").slice(0, NAME_MAX)
    : [listing.crm, object].filter((part) => part !== undefined).join(" ");

/** When the snapshot was taken, ms. */
const asOfIn = (work: WorkFile): number => Math.trunc((work.progress("asOf") as number) ?? 0);

/** The comparison's line in the audit trail: what was compared with what, and what it has found. */
function audit(
  { deployed, mapping, mappingHash, stores }: Session,
  snapshot: OpenSnapshot,
  made: Made,
  { listedAt, summary, work }: Comparison,
  stop: Stop | undefined,
): Promise<void> {
  const { active, codes, counts, records, relations } = summary;
  const found = Object.entries(counts).filter(([name, count]) => count > 0 || name === "equal");
  const at = (ms: number) => new Date(ms).toISOString();
  return stores.auditActs.record({
    act: "reconcile.compare",
    by: made.by ?? `${hostname()}:${process.pid}`,
    details: {
      source: made.source,
      kind: made.kind,
      snapshot: nameOf(snapshot, made),
      snapshotAt: at(made.asOf),
      snapshotHash: `sha256:${snapshot.scan.hash}`,
      mapping: basename(mapping.name),
      mappingHash: `sha256:${mappingHash}`,
      ...(deployed !== undefined && { deployedMapping: basename(deployed) }),
      records,
      codes,
      counts: Object.fromEntries(found),
      service: { relations, active, hash: hashOfList(work), listedAt: at(listedAt) },
      ...(stop !== undefined && { stopped: stop.why }),
    },
  });
}

const emptyObjectsOf = ({ listing }: OpenSnapshot): string[] =>
  Object.entries(listing?.objects ?? {}).flatMap(([name, records]) =>
    records === 0 ? [name] : [],
  );

/** For the status, and for the list of the last comparisons. */
async function remember(
  { stores }: Session,
  snapshot: OpenSnapshot,
  made: Made,
  found: Pick<Findings, "plan" | "stop" | "summary"> & {
    readonly tookMs: number;
    /** Whether what was found counts. */
    readonly isKept: boolean;
    readonly work: WorkFile;
  },
): Promise<ComparedExport | undefined> {
  const { asOf, by, kind, object, source } = made;
  const { isKept, plan, stop, summary, tookMs, work } = found;
  const { counts, records } = summary;
  const name = nameOf(snapshot, made);
  // Notifications match the two by the time.
  const both = { at: stores.clock.now(), name, tookMs, records, equal: counts.equal };
  if (isKept) {
    const drift = Object.fromEntries(DRIFT_KINDS.map((of) => [of, counts[of]]));
    await stores.reconciliations.keep({
      ...both,
      ...(plan !== undefined && { planId: plan.header.id }),
      drift: drift as Record<(typeof DRIFT_KINDS)[number], number>,
      leftOutValues: leftOutByField(summary),
    });
  }
  const differs = DRIFT_KINDS.filter((of) => counts[of] > 0);
  await stores.comparisons.note({
    ...both,
    source,
    ...(by !== undefined && { by }),
    ...(snapshot.listing !== undefined && {
      crm: snapshot.listing.crm,
      ...(object !== undefined && { object }),
    }),
    kind,
    asOf,
    drift: Object.fromEntries(differs.map((of) => [of, counts[of]])),
    ...(stop !== undefined && { stop: stop.what }),
    ...(plan !== undefined && {
      plan: {
        id: plan.header.id,
        entries: plan.entries,
        requests: plan.header.requests,
        host: hostname(),
      },
    }),
  });
  return isKept ? keepDifferences(stores, work, { kind, name, asOf, at: both.at }) : undefined;
}

function leftOutByField({ leftOut }: Summary): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { count, field, reason } of leftOut)
    if (reason !== "suspicious") counts[field] = (counts[field] ?? 0) + count;
  return counts;
}

async function valuesOf(
  session: Session,
  snapshot: OpenSnapshot,
  options: RecordOptions,
  work: WorkFile,
) {
  return {
    events: readEvents(snapshot, session.mapping, options, asOfIn(work)),
    view: await viewOf(session),
    sealing: session.stores.sealing,
  };
}

async function outlookOf(
  { stores }: Session,
  { requests: spent, summary }: Comparison,
  options: CompareOptions,
  requests: number,
): Promise<Outlook> {
  const readings = await takeReadings(stores);
  const { live, bulk } = waitingRequests(readings);
  const terminations = terminationsIn(summary, options);
  const { counted, limit } = readings.terminations;
  return {
    spent,
    requests,
    terminations,
    held: Math.max(0, terminations - Math.max(0, limit - counted)),
    remaining: readings.quota.remaining,
    limit: readings.quota.limit,
    endsAt: requests === 0 ? undefined : readings.quota.drainedAt({ live, bulk: bulk + requests }),
  };
}

async function planFor(
  { baseUrl, config, dir, mapping, mappingHash, stores }: Session,
  { listing, path, reading, scan }: OpenSnapshot,
  made: Made,
  { doubts, foreign, requests }: Pick<PlanHeader, "foreign" | "requests"> & { doubts: string[] },
  entries: Iterable<PlanEntry>,
): Promise<OpenPlan> {
  const { asOf, idFrom, kind, maxAge, object, plan, snapshotPath = path } = made;
  const now = new Date(stores.clock.now()).toISOString();
  const file = plan ?? join(dir, `plan-${now.replaceAll(":", "-")}.ndjson`);
  const header: PlanHeader = {
    crmsyncPlan: 1,
    id: randomUUID(),
    madeAt: now,
    service: baseUrl,
    prefix: config.QUEUE_PREFIX,
    mapping: mapping.name,
    mappingHash,
    snapshot: {
      file: snapshotPath,
      from: listing?.crm,
      kind: path && kind,
      hash: scan.hash,
      encoding: scan.encoding,
      asOf: new Date(asOf).toISOString(),
      object,
      idFrom,
      reading,
    },
    requests,
    ...(foreign && { foreign, endsForeign: made.terminateMissing && made.includeForeign }),
    ...(doubts.length > 0 && { doubts }),
  };
  // Noted before the plan is written: after a crash in between, records are kept in vain. In the other order,
  // records that a plan needs could be removed.
  listing?.keepFor(header.id, stores.clock.now() + maxAge * HOUR_MS);
  return writePlan(file, header, entries);
}

const firstTerminations = (entries: IteratorObject<PlanEntry>): string[] =>
  entries
    .filter(({ kind }) => kind === "ended" || kind === "extra")
    .take(MOST_LISTED)
    .map(({ code }) => code)
    .toArray();
