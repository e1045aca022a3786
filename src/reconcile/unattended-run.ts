/** A reconciliation without a person beside it: the guards of the command, and a result to keep. */
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { UserError } from "../ops/user-error.ts";
import type { EntryOutcome } from "./apply-entry.ts";
import { carryOut, unfinishedPlan, type CarryOutView } from "./carry-out.ts";
import { compareSnapshot, type CompareOptions, type Outlook } from "./compare-snapshot.ts";
import { listCrm, openListing, openSnapshotOf } from "./crm-snapshot.ts";
import type { Stop } from "./guards.ts";
import { openSnapshot, type OpenSnapshot } from "./open-snapshot.ts";
import { notedKind } from "./kind-of-file.ts";
import { openPlan, type OpenPlan } from "./plan-file.ts";
import type { Session } from "./session.ts";
import type { Summary } from "./summary.ts";
import type { Encoding } from "../snapshot/scan-file.ts";
import { TryLater } from "./try-later.ts";

/** A plan that was just made is carried out at once. */
const MAX_AGE_HOURS = 24;

/** One that a person has asked for: a day until it was asked, a day to approve it, a day to begin it. */
const MAX_ASKED_HOURS = 3 * MAX_AGE_HOURS;

export interface RunOptions extends Pick<
  CompareOptions,
  "accept" | "idFrom" | "object" | "report"
> {
  /** When the export began, ms; undefined: as its file tells. */
  readonly asOf?: number;
  /** How it was saved; undefined: it is found out. */
  readonly encoding?: Encoding;
  /** Whether the plan is carried out. */
  readonly isApplied: boolean;
  /** Where the plan is written that is not carried out, and where its snapshot will lie then. */
  readonly plan?: string;
  readonly snapshotPath?: string;
  /** Exports of one kind follow each other: an older one must not undo a newer one. */
  readonly kind?: string;
}

/** What was found; it stands in the result. */
export interface Found {
  readonly found: Summary;
  readonly requests: Outlook;
}

export type RunResult =
  | ({
      readonly result: "success";
      /** Entries of the plan; 0: there was nothing to do. */
      readonly planned: number;
      /** Where the plan is that was not carried out. */
      readonly plan?: string | undefined;
      /** Undefined when nothing was carried out. */
      readonly applied?: Readonly<Record<EntryOutcome, number>>;
    } & Partial<Found>)
  | ({
      readonly result: "stopped";
      readonly error: string;
      readonly why: Stop["why"];
      /** The first crmCodes that would be terminated. */
      readonly terminations: readonly string[];
    } & Found)
  | { readonly result: "failed"; readonly error: string }
  /** It failed for a reason that may pass. */
  | { readonly result: "later"; readonly error: string };

export type RunPorts = Pick<CarryOutView, "recordAct"> & {
  /** Called while the plan is carried out. */
  readonly onApplied: () => void;
};

/** A file, a CRM that is listed by its API, or a plan that exists, as it was when it was asked for. */
export type RunInput =
  | { readonly file: string }
  | { readonly crm: string }
  | { readonly plan: string; readonly hash: string };

type NewInput = Exclude<RunInput, { readonly plan: string }>;

export async function runUnattended(
  session: Session,
  input: RunInput,
  options: RunOptions,
  ports: RunPorts,
): Promise<RunResult> {
  try {
    if (session.deployed !== undefined) {
      throw new TryLater(
        `a running process has the mapping ${session.deployed}, and not ${session.mapping.name} as it is now: restart all processes with one mapping`,
      );
    }
    if ("plan" in input) return await applyAsked(session, input, options, ports);
    const begun = options.isApplied ? await begunList(session, input) : undefined;
    const snapshot = await open(session, input, begun, options);
    try {
      return begun === undefined
        ? await compareAndApply(session, snapshot, options, ports)
        : await applyBegun(session, snapshot, begun, ports);
    } finally {
      snapshot.close();
    }
  } catch (error) {
    if (error instanceof TryLater) return { result: "later", error: error.message };
    if (error instanceof UserError) return { result: "failed", error: error.message };
    throw error;
  }
}

/** What the comparison has warned of, was shown to the person. @throws UserError when it is not what was asked for */
async function applyAsked(
  session: Session,
  { hash, plan: file }: { readonly plan: string; readonly hash: string },
  { accept = [] }: RunOptions,
  ports: RunPorts,
): Promise<RunResult> {
  const plan = await openPlan(file);
  const isSame =
    plan.hash === hash && plan.header.doubts?.every((one) => accept.includes(one)) !== false;
  if (!isSame)
    throw new UserError(`the plan ${file} was changed after it was asked for: ask again`);
  const snapshot = await openSnapshotOf(session, plan);
  try {
    const applied = await apply(session, snapshot, plan, ports, MAX_ASKED_HOURS);
    return { result: "success", planned: plan.entries, applied };
  } finally {
    snapshot.close();
  }
}

/** The plan from a list of this CRM that an earlier run has begun to carry out. */
const begunList = async (session: Session, input: NewInput): Promise<OpenPlan | undefined> =>
  "crm" in input ? unfinishedPlan(session, { from: input.crm }) : undefined;

async function open(
  session: Session,
  input: NewInput,
  begun: OpenPlan | undefined,
  { encoding }: Pick<RunOptions, "encoding">,
): Promise<OpenSnapshot> {
  if ("file" in input) {
    const snapshot = await openSnapshot(input.file, session.dir, encoding);
    return { ...snapshot, name: basename(input.file) };
  }
  const list = begun?.header.snapshot.file;
  return list === undefined ? listCrm(session, input.crm) : openListing(session, input.crm, list);
}

async function applyBegun(
  session: Session,
  snapshot: OpenSnapshot,
  begun: OpenPlan,
  ports: RunPorts,
): Promise<RunResult> {
  const applied = await apply(session, snapshot, begun, ports);
  return { result: "success", planned: begun.entries, applied };
}

async function compareAndApply(
  session: Session,
  snapshot: OpenSnapshot,
  options: RunOptions,
  ports: RunPorts,
): Promise<RunResult> {
  const { isApplied, kind } = options;
  if (isApplied && snapshot.listing === undefined) {
    await requireNewest(session, snapshot, options);
    const begun = await unfinishedPlan(session, { hash: snapshot.scan.hash });
    if (begun !== undefined) return applyBegun(session, snapshot, begun, ports);
  }
  const progress = { listing() {} };
  const found = await compareSnapshot(
    session,
    snapshot,
    {
      ...options,
      isUnseen: isApplied,
      maxAge: MAX_AGE_HOURS,
      source: snapshot.listing === undefined ? "folder" : "schedule",
    },
    progress,
  );
  const { outlook: requests, plan, stop, summary, terminations } = found;
  const both = { found: summary, requests };
  if (stop !== undefined) {
    return { result: "stopped", error: stop.says, why: stop.why, terminations, ...both };
  }
  const planned = plan?.entries ?? 0;
  if (!isApplied) return { result: "success", planned, plan: plan?.file, ...both };
  const asOf = Math.min(options.asOf ?? snapshot.takenAt, session.stores.clock.now());
  // Before the first change: a crash must not let an older export pass.
  if (kind !== undefined) await session.stores.reconcileRuns.noteNewest(kind, asOf);
  if (plan === undefined) return { result: "success", planned, ...both };
  return {
    result: "success",
    planned,
    applied: await apply(session, snapshot, plan, ports),
    ...both,
  };
}

async function apply(
  session: Session,
  snapshot: OpenSnapshot,
  plan: OpenPlan,
  { onApplied, recordAct }: RunPorts,
  maxAgeHours = MAX_AGE_HOURS,
): Promise<Readonly<Record<EntryOutcome, number>>> {
  const view = { maxAgeHours, recordAct, onProgress: onApplied, onPause() {} };
  return (await carryOut(session, snapshot, plan, view)).outcomes;
}

/**
 * Watermarks keep a snapshot from undoing newer live changes. A record that a newer export found equal has
 * no newer watermark, so an older export that is dropped late would undo it. An operator may have compared
 * the newer one, so the comparisons of the command count too.
 */
async function requireNewest(
  { stores }: Session,
  { path }: OpenSnapshot,
  { asOf, kind }: RunOptions,
): Promise<void> {
  if (kind === undefined || path === undefined) return;
  const { clock, comparisons, reconcileRuns } = stores;
  const compared = await comparisons.ofKind(notedKind(kind), clock.now());
  const times = compared.flatMap((one) => (one.stop === undefined ? (one.asOf ?? []) : []));
  const newest = Math.max((await reconcileRuns.newest(kind)) ?? 0, ...times);
  const ended = asOf ?? (await stat(path)).mtimeMs;
  if (ended >= newest) return;
  const at = (ms: number) => new Date(ms).toISOString();
  throw new UserError(
    `it is of ${at(ended)}, and an export of ${at(newest)} was compared already: it could undo newer changes. Export again, or compare it by hand (crmsync reconcile FILE)`,
  );
}
