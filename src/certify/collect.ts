/** What a certificate says of a period: by the audit trail, and by the state in Redis where that is of the period. */
import { basename } from "node:path";
import { counted } from "../base/counted.ts";
import { allLines, atOf, textOf } from "../people/audit/search.ts";
import { isKeyed, type LineFields } from "../people/audit/line.ts";
import type { Verified } from "../people/audit/verify.ts";
import {
  countInto,
  emptyCounts,
  listRelations,
  type RelationState,
} from "../records/list-relations.ts";
import { documentOf } from "../records/print-relation.ts";
import type { RelationStateName } from "../records/state-of.ts";
import type { Stores } from "../operate/status/stores.ts";

/** Times in ms; `to`: the first moment after it, which may be to come. */
export interface Period {
  readonly month: string;
  readonly from: number;
  readonly to: number;
}

/** @param now ms @returns undefined for what is no month, or one that has not begun. */
export function periodOf(month: string | undefined, now: number): Period | undefined {
  const text = month ?? new Date(now).toISOString().slice(0, 7);
  const from = /^\d{4}-(?:0[1-9]|1[0-2])$/.test(text) ? Date.parse(`${text}-01T00:00:00Z`) : NaN;
  if (!(from <= now)) return undefined;
  const next = new Date(from);
  next.setUTCMonth(next.getUTCMonth() + 1);
  return { month: text, from, to: next.getTime() };
}

/** The files of the trail, the oldest first, and what their verification has found. */
export interface Trail {
  readonly files: readonly string[];
  readonly verified: Pick<Verified, "chains" | "faults" | "lines" | "notes">;
  /** Of other processes, which Redis knows; `at`: of its newest line, ms. */
  readonly elsewhere: readonly { readonly at: number; readonly where: string }[];
}

export type Certificate = Awaited<ReturnType<typeof collect>>;

/** A comparison is old after this long without another one, ms. */
const OLD_MS = 7 * 86_400_000;

/** Faults of the trail that are named; `crmsync audit verify` names all. */
const MOST_FAULTS = 20;

const iso = (ms: number): string => new Date(ms).toISOString();

/** @param trail undefined: there is none. @param by who makes the certificate */
export async function collect(
  stores: Stores,
  period: Period,
  trail: Trail | undefined,
  { by, version }: { readonly by: string; readonly version: string },
) {
  const now = stores.clock.now();
  const isNow = period.to > now;
  const read = await readTrail(trail?.files ?? [], period);
  const state = isNow ? await readState(stores) : undefined;
  const { SERVICE_BASE_URL, QUEUE_PREFIX: tenant } = stores.config;
  return {
    crmsyncCertificate: 1,
    month: period.month,
    from: iso(period.from),
    to: iso(isNow ? now : period.to),
    madeAt: iso(now),
    by,
    version,
    tenant,
    service: read.service ?? SERVICE_BASE_URL ?? null,
    trail: trail === undefined ? null : trailOf(trail),
    comparisons: read.comparisons,
    compared: read.compared,
    changes: read.changes,
    state: state ?? null,
    terminations: terminationsOf(read),
    acts: read.acts,
    mappings: read.mappings,
    interruptions: [...read.interruptions.values()],
    gaps: gapsOf(period, isNow, trail, read),
  };
}

const trailOf = ({ files, verified: { chains, faults, lines, notes } }: Trail) => ({
  files: files.map((file) => basename(file)),
  lines,
  isKeyed: chains.length > 0 && chains.every(({ head }) => isKeyed(head.hash)),
  chains: chains.map(({ first, head: { chain, hash, seq } }) => ({
    chain,
    first,
    last: seq,
    hash,
  })),
  faults: faults.length,
  faultsNamed: faults.slice(0, MOST_FAULTS).map(({ file, line, says }) => {
    return `${basename(file)}:${line}: ${says}`;
  }),
  notes: notes.map(({ says }) => says),
});

/** What a line of the trail says, as it stands there. */
type Fields = LineFields & { readonly at: string };

type ReadTrail = ReturnType<typeof nothingRead>;

const nothingRead = () => ({
  /** The newest of each kind of export that no guard has stopped, and that used the daemon's mapping. */
  comparisons: [] as Fields[],
  /** All of the period, and those of them that a guard has stopped. */
  compared: { all: 0, stopped: 0 },
  changes: { created: 0, updated: 0, terminated: 0, uncertain: 0 } as Record<string, number>,
  terminated: [] as Fields[],
  /** crmCode → who has let its held change be sent, oldest first. */
  released: new Map<string, Fields[]>(),
  /** Plans that were carried out, oldest first. */
  applied: [] as Fields[],
  acts: [] as Fields[],
  /** Its address, as the last process has had it that could send. */
  service: undefined as string | undefined,
  mappings: [] as { mapping: string; hash: string | null; from: string }[],
  interruptions: new Map<string, ReturnType<typeof interruptionOf>>(),
  firstAt: undefined as number | undefined,
});

/** Acts that need a person, or are about the evidence: each is named. */
const NAMED_ACTS =
  /^(?:approval\.|held\.|dead\.drop$|bulk\.|forget$|ledger\.forget$|redis\.re|reconcile\.(?:apply|forget)$|file\.)/;

async function readTrail(files: readonly string[], { from, to }: Period): Promise<ReadTrail> {
  const newest = new Map<string, Fields>();
  const read = nothingRead();
  // From the beginning: what was released before the period may have been sent in it.
  for await (const { line } of allLines(files.toReversed(), { to })) {
    const at = atOf(line);
    if (at === undefined) continue;
    const fields: Fields = { ...line.fields, at };
    const time = Date.parse(at);
    read.firstAt = Math.min(read.firstAt ?? time, time);
    const isInPeriod = time >= from;
    const act = textOf(fields["act"]);
    if (act === "held.release") addTo(read.released, textOf(fields["crmCode"]), fields);
    if (act === "reconcile.apply") read.applied.push(fields);
    if (act === "process.start") noteStart(read, fields);
    if (act.startsWith("interruption.")) noteInterruption(read, fields, from);
    if (!isInPeriod) continue;
    if (NAMED_ACTS.test(act)) read.acts.push(withoutIds(fields));
    if (act === "change") {
      const outcome = textOf(fields["outcome"]);
      read.changes[outcome] = (read.changes[outcome] ?? 0) + 1;
      if (outcome === "terminated") read.terminated.push(fields);
    }
    if (act !== "reconcile.compare" || fields["deployedMapping"] !== undefined) continue;
    read.compared.all += 1;
    if (fields["stopped"] !== undefined && fields["stopped"] !== "terminations")
      read.compared.stopped += 1;
    else newest.set(textOf(fields["kind"]), withoutIds(fields));
  }
  read.comparisons = [...newest.values()].toSorted((a, b) => (a.at < b.at ? 1 : -1));
  return read;
}

const withoutIds = (fields: Fields): Fields => ({ ...fields, id: undefined });

function addTo(all: Map<string, Fields[]>, name: string, fields: Fields): void {
  all.set(name, [...(all.get(name) ?? []), fields]);
}

/** A start, perhaps with another mapping than the one before. */
function noteStart(read: ReadTrail, { at, mapping, mappingHash, settings }: Fields): void {
  const { mappings } = read;
  const { SERVICE_BASE_URL } = (settings ?? {}) as { readonly SERVICE_BASE_URL?: unknown };
  read.service = textOf(SERVICE_BASE_URL) || read.service;
  const hash = textOf(mappingHash) || null;
  const name = basename(textOf(mapping));
  const last = mappings.at(-1);
  if (last?.hash !== hash || last.mapping !== name)
    mappings.push({ mapping: name, hash, from: at });
}

const interruptionOf = ({ about, reason, says, since, until }: Fields) => ({
  reason: textOf(reason),
  about: textOf(about) || null,
  says: textOf(says),
  since: textOf(since),
  until: textOf(until) || null,
});

/** Those that ended before the period are left out. */
function noteInterruption({ interruptions }: ReadTrail, fields: Fields, from: number): void {
  const one = interruptionOf(fields);
  const name = [one.reason, one.about ?? "", one.since].join(" ");
  if (one.until !== null && Date.parse(one.until) < from) interruptions.delete(name);
  else interruptions.set(name, one);
}

/** The source of what a plan sends (whole/reconcile/read-events.ts). */
const OF_PLAN = "/reconcile";

/** Each with the person who has approved it, or why none had to. */
function terminationsOf({ applied, released, terminated }: ReadTrail) {
  return terminated.map(({ at, crmCode, event }) => {
    const before = (one: Fields) => one.at <= at;
    const source = textOf((event as { source?: unknown } | undefined)?.source);
    const release = released.get(textOf(crmCode))?.findLast(before);
    const plan = source === OF_PLAN ? applied.findLast(before) : undefined;
    const decided = release ?? plan;
    return {
      at,
      crmCode: textOf(crmCode),
      source,
      how: release !== undefined ? "released" : plan !== undefined ? "plan" : "within the limit",
      by: textOf(decided?.["by"]) || null,
      approvedBy: textOf(decided?.["approvedBy"]) || null,
    };
  });
}

const FINE: ReadonlySet<RelationStateName> = new Set(["on the service", "ended"]);

/** How every known relation stands: each that is not on the service, and each that differs from the CRM. */
async function readState(stores: Stores) {
  const counts = emptyCounts();
  const exceptions: ReturnType<typeof exceptionOf>[] = [];
  for await (const page of listRelations(stores)) {
    countInto(counts, page);
    for (const one of page)
      if ([one.state, ...one.also].some((name) => !FINE.has(name)))
        exceptions.push(exceptionOf(one));
  }
  return { at: iso(stores.clock.now()), ...counts, exceptions };
}

function exceptionOf(one: RelationState) {
  const { crmCode, next, owner, record, since, source, why } = documentOf(one);
  return { crmCode, record, states: [one.state, ...one.also], since, why, next, owner, source };
}

/** What the evidence does not cover. */
function gapsOf(
  { from, to }: Period,
  isNow: boolean,
  trail: Trail | undefined,
  { comparisons, compared, firstAt, interruptions }: ReadTrail,
): string[] {
  const [last] = comparisons;
  const sinceLast = last === undefined ? 0 : Math.min(to, Date.now()) - Date.parse(last.at);
  const stopped = [...interruptions.values()].filter(({ reason }) => reason === "crmsyncdown");
  const { faults = [], chains = [] } = trail?.verified ?? {};
  const begins = firstAt === undefined ? "after the period" : `at ${iso(firstAt)}`;
  const guarded = compared.stopped > 0 ? ` (${compared.stopped} were stopped by a guard)` : "";
  const gaps: [isOne: boolean, says: string][] = [
    [
      trail === undefined,
      "There is no audit trail here (AUDIT_LOG): nothing is said of changes, terminations, comparisons and interruptions.",
    ],
    [
      faults.length > 0,
      `The audit trail is broken: ${counted(faults.length, "fault")}. What its lines say may be incomplete or changed.`,
    ],
    [
      chains.some(({ head }) => !isKeyed(head.hash)),
      "The audit trail was made without AUDIT_KEY: who can write its file could have written all lines anew.",
    ],
    ...(trail?.elsewhere ?? []).map(({ at, where }): [boolean, string] => [
      at >= from,
      `The audit trail of another process is not here: ${where}, with lines until ${iso(at)}. What it says is left out; --audit names the files of all.`,
    ]),
    [
      trail !== undefined && (firstAt === undefined || firstAt > from),
      `The audit trail begins ${begins}: nothing is known of the time before.`,
    ],
    [
      last === undefined,
      `No comparison of the CRM with the service was completed in the period${guarded}: whether both lists agree is not proven.`,
    ],
    [
      sinceLast > OLD_MS,
      `The newest comparison is of ${last?.at ?? ""}: nothing proves the time after it.`,
    ],
    ...stopped.map(({ since, until }): [boolean, string] => [
      true,
      `No process was running, or Redis could not be used, from ${since} to ${until ?? "the end"}.`,
    ]),
    [
      !isNow,
      "The period is over: the state of single relations is that of today and is not shown. What is said is what the audit trail has noted.",
    ],
  ];
  return gaps.flatMap(([isOne, says]) => (isOne ? [says] : []));
}
