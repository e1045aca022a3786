/** A reconciliation without a person beside it: the guards of the command, and a result to keep. */
import { crmsync } from "../../base/command.ts";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { TryLater, UserError } from "../../base/user-error.ts";
import type { EntryOutcome } from "./apply-entry.ts";
import { carryOut, unfinishedPlan, type CarryOutView } from "./carry-out.ts";
import {
  type CompareOptions,
  compareSnapshot,
  notedKind,
  type Outlook,
} from "./compare-snapshot.ts";
import { listCrm, openSnapshotOf } from "./crm-snapshot.ts";
import type { Stop } from "./guards.ts";
import { openSnapshot, type OpenSnapshot } from "./open-snapshot.ts";
import { openPlan, type OpenPlan } from "./plan-file.ts";
import type { Session } from "./session.ts";
import type { Summary } from "./summary.ts";
import type { Reading } from "../../intake/snapshot/item.ts";
import type { Encoding } from "../../intake/snapshot/scan-file.ts";

/** A plan that was just made is carried out at once. */
const MAX_AGE_HOURS = 24;

/** One that a person has asked for: a day until it was asked, a day to approve it, a day to begin it. */
const MAX_ASKED_HOURS = 3 * MAX_AGE_HOURS;

export interface RunOptions extends Pick<
  CompareOptions,
  "accept" | "asOf" | "idFrom" | "kind" | "object" | "plan" | "report" | "snapshotPath"
> {
  /** How it was saved; undefined: it is found out. */
  readonly encoding?: Encoding | undefined;
  readonly reading?: Reading | undefined;
  /** Whether the plan is carried out. */
  readonly isApplied: boolean;
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

export type RunPorts = Pick<CarryOutView, "by"> & {
  /** Called while the plan is carried out. */
  readonly onApplied: () => void;
};

/** A file, a CRM that is listed by its API, or a plan that exists, as it was when it was asked for. */
export type RunInput =
  | { readonly file: string }
  | { readonly crm: string }
  | { readonly plan: string; readonly hash: string };

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
    const { plan, snapshot } = await open(session, input, options);
    const maxAge = "plan" in input ? MAX_ASKED_HOURS : MAX_AGE_HOURS;
    try {
      return plan === undefined
        ? await compareAndApply(session, snapshot, options, ports)
        : await apply(session, snapshot, plan, ports, maxAge);
    } finally {
      snapshot.close();
    }
  } catch (error) {
    if (error instanceof TryLater) return { result: "later", error: error.message };
    if (error instanceof UserError) return { result: "failed", error: error.message };
    throw error;
  }
}

/** @returns also the plan that exists already: it was asked for, or an earlier run has begun to carry it out. */
async function open(
  session: Session,
  input: RunInput,
  options: RunOptions,
): Promise<{ snapshot: OpenSnapshot; plan: OpenPlan | undefined }> {
  const { encoding, isApplied, reading } = options;
  if ("plan" in input) {
    const plan = await askedPlan(input, options);
    return { plan, snapshot: await openSnapshotOf(session, plan) };
  }
  if ("file" in input) {
    const file = await openSnapshot(input.file, session.dir, encoding);
    const snapshot = { ...file, name: basename(input.file), reading };
    if (!isApplied) return { plan: undefined, snapshot };
    await requireNewest(session, snapshot, options);
    return { plan: await unfinishedPlan(session, { hash: snapshot.scan.hash }), snapshot };
  }
  const plan = isApplied ? await unfinishedPlan(session, { from: input.crm }) : undefined;
  const snapshot = plan ? openSnapshotOf(session, plan) : listCrm(session, input.crm);
  return { plan, snapshot: await snapshot };
}

/** What the comparison has warned of, was shown to the person. @throws UserError when it is not what was asked for */
async function askedPlan(
  { hash, plan: file }: Extract<RunInput, { readonly plan: string }>,
  { accept = [] }: RunOptions,
): Promise<OpenPlan> {
  const plan = await openPlan(file);
  const isSame =
    plan.hash === hash && plan.header.doubts?.every((one) => accept.includes(one)) !== false;
  if (isSame) return plan;
  throw new UserError(`the plan ${file} was changed after it was asked for: ask again`);
}

async function compareAndApply(
  session: Session,
  snapshot: OpenSnapshot,
  options: RunOptions,
  ports: RunPorts,
): Promise<RunResult> {
  const { isApplied, kind } = options;
  const found = await compareSnapshot(
    session,
    snapshot,
    {
      ...options,
      isUnseen: isApplied,
      maxAge: MAX_AGE_HOURS,
      source: snapshot.listing === undefined ? "folder" : "schedule",
    },
    { listing() {} },
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
  return { ...(await apply(session, snapshot, plan, ports, MAX_AGE_HOURS)), ...both };
}

async function apply(
  session: Session,
  snapshot: OpenSnapshot,
  plan: OpenPlan,
  { by, onApplied }: RunPorts,
  maxAgeHours: number,
): Promise<Extract<RunResult, { readonly result: "success" }>> {
  const view = { maxAgeHours, by, onProgress: onApplied, onPause() {} };
  const { outcomes } = await carryOut(session, snapshot, plan, view);
  return { result: "success", planned: plan.entries, applied: outcomes };
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
  const times = compared.flatMap((one) => (one.stop === undefined ? one.asOf : []));
  const newest = Math.max((await reconcileRuns.newest(kind)) ?? 0, ...times);
  const ended = asOf ?? (await stat(path)).mtimeMs;
  if (ended >= newest) return;
  const at = (ms: number) => new Date(ms).toISOString();
  throw new UserError(
    `it is of ${at(ended)}, and an export of ${at(newest)} was compared already: it could undo newer changes. Export again, or compare it by hand (${crmsync`reconcile FILE`})`,
  );
}
