/** One file of RECONCILE_DIR: runs its reconciliation, and moves it where its result says. */
import { crmsync } from "../src/base/command.ts";
import { kindOfFile } from "../src/whole/reconcile/compare-snapshot.ts";
import type { TakenFile } from "../src/whole/reconcile/drop/taken-file.ts";
import type { RunResult } from "../src/whole/reconcile/unattended-run.ts";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import { runInChild, type ChildResult } from "./reconcile-child.ts";
import type { RunMessage, RunRequest } from "./reconcile-run.ts";
import type { Uses } from "./parts.ts";

/** A file with which this many processes have died is not tried again. */
const MOST_TRIES = 5;

const HOUR_MS = 3_600_000;

/** The file stays where it is: the reason may pass. */
export class RunLater extends Error {}

export type RunParts = Uses<"approvals" | "clock" | "config" | "log" | "metrics" | "reconcileRuns">;

export interface Run {
  readonly parts: RunParts;
  readonly redisUrl: string;
  readonly service: ServiceAddress;
  /** Ends the run; another one continues it. */
  readonly signal: AbortSignal;
}

/** @throws RunLater, or an error of node:fs; the file is then still taken. */
export async function runTaken(taken: TakenFile, run: Run): Promise<void> {
  const { parts, signal } = run;
  const { problem, tries } = taken.task;
  const begunAt = performance.now();
  if (problem !== undefined) return end(taken, parts, begunAt, failed(problem));
  if (tries >= MOST_TRIES) {
    const error = `${tries} processes that compared it have died; too little memory may be the cause`;
    return end(taken, parts, begunAt, failed(error));
  }
  await taken.begin();
  parts.log.info({ tries: taken.task.tries }, "reconcile.began");
  let isApplying = false;
  const onApplied = () => {
    // Carrying out a plan may take days: more than MOST_TRIES processes may die in that time.
    if (!isApplying) void taken.note({ tries: 0 }).catch(() => {});
    isApplying = true;
  };
  const request = await requestFor(taken, run);
  const result = await runInChild(request, signal, countIn(parts, onApplied));
  if (signal.aborted && (result.result === "died" || result.result === "later")) {
    return taken.note({ tries: Math.max(0, taken.task.tries - 1) });
  }
  if (result.result === "died") throw new RunLater(result.error);
  if (result.result !== "later") return end(taken, parts, begunAt, result);
  const now = parts.clock.now();
  const { failingSince = now } = taken.task;
  if (now - failingSince > parts.config.RETRY_MAX_HOURS * HOUR_MS) {
    return end(taken, parts, begunAt, failed(result.error));
  }
  await taken.note({ tries: 0, failingSince });
  throw new RunLater(result.error);
}

const failed = (error: string): RunResult => ({ result: "failed", error });

async function requestFor(
  taken: TakenFile,
  { parts, redisUrl, service }: Run,
): Promise<RunRequest> {
  const { accept, asOf, encoding, idFrom, name, object } = taken.task;
  const { records, skipColumns, skipRows } = taken.task;
  const isApplied = parts.config.RECONCILE_APPLY !== undefined;
  return {
    input: { file: taken.path },
    redisUrl,
    service: { baseUrl: service.baseUrl, token: service.token() },
    options: {
      accept,
      asOf,
      idFrom,
      encoding,
      object,
      reading: { records, skipColumns, skipRows },
      kind: kindOfFile(name),
      isApplied,
      report: taken.report,
      ...(!isApplied && { plan: taken.plan, snapshotPath: await taken.placeIn("done") }),
    },
  };
}

/** @param metrics count what the other process does, as this one counts its own work. */
export function countIn({ metrics }: Uses<"metrics">, onApplied = () => {}) {
  return (message: Exclude<RunMessage, { kind: "ended" }>): void => {
    switch (message.kind) {
      case "exchange": {
        const { durationMs, method, operation, status } = message.exchange;
        metrics.countRequest(method, operation, status);
        metrics.requestDuration.observe({ method }, durationMs / 1000);
        return;
      }
      case "throttled":
        metrics.pauses.inc({ reason: "throttled" });
        return;
      case "applied":
        onApplied();
    }
  };
}

export type Ended = Exclude<ChildResult, { result: "died" | "later" }>;

async function end(
  taken: TakenFile,
  { clock, log, reconcileRuns }: RunParts,
  begunAt: number,
  result: RunResult,
): Promise<void> {
  if (result.result === "later") return;
  const folder = result.result === "success" ? "done" : "failed";
  const at = clock.now();
  const tookMs = Math.round(performance.now() - begunAt);
  const { path, task } = taken;
  await taken.end(folder, (place) => ({
    at: new Date(at).toISOString(),
    seconds: Math.round(tookMs / 1000),
    ...result,
    // The file's path while it was taken means nothing to a reader.
    ...("error" in result && { error: result.error.replaceAll(path, task.name) }),
    remedy: remedyFor(result, place),
  }));
  await reconcileRuns.ended("folder", { at, tookMs, result: result.result });
  log[folder === "done" ? "info" : "warn"](fieldsOf(result), "reconcile.ended");
}

export function fieldsOf(result: Ended) {
  const { result: outcome } = result;
  const why = result.result === "stopped" ? result.why : undefined;
  if (!("found" in result)) return { outcome, why };
  return { outcome, why, records: result.found?.records, requests: result.requests?.requests };
}

/** What a person may do now. */
function remedyFor(result: Ended, place: string): string | null {
  switch (result.result) {
    case "success":
      if (result.planned === 0 || result.applied !== undefined) return null;
      return `look at the report; to carry the plan out: ${crmsync`reconcile --apply ${`${place}.plan.ndjson`}`}`;
    case "stopped":
      if (result.why === "short_list") {
        return `compare again: ${crmsync`reconcile ${place}`}; if the relations are gone, ${crmsync`ledger forget --apply`} before`;
      }
      return result.why === "terminations"
        ? `if these terminations are right: ${crmsync`reconcile ${place} --apply --max-terminate ${result.requests.terminations}`}`
        : `export again; or, if it is right: ${crmsync`reconcile ${place}`}, with what the error names`;
    case "failed":
      return "correct the cause, and drop the export again";
  }
}
