/** What is shared of the reconciliations that daemons begin by themselves. */
import { hashReading, jsonReading, reading, type Reading } from "../../base/redis-reading.ts";
import { digestOf } from "./keys.ts";
import { Store } from "./store.ts";

/** After this long without a sign of its process, another one may reconcile, ms. */
const RUN_LEASE_MS = 15_000;

/** What a host said of its folder counts for this long, ms. */
const FOLDER_MS = 600_000;

/** Kinds of exports that are remembered. */
const MOST_KINDS = 1000;

/** `stopped`: a guard asks for a person. */
export const RUN_RESULTS = ["success", "stopped", "failed"] as const;

/** What begins a run. */
export const RUN_SOURCES = ["folder", "schedule"] as const;
export type RunSource = (typeof RUN_SOURCES)[number];

export interface ReconcileRun {
  /** When it ended, ms. */
  readonly at: number;
  /** How long it took, also to carry out its plan, ms. */
  readonly tookMs: number;
  readonly result: (typeof RUN_RESULTS)[number];
}

/** What one host sees in RECONCILE_DIR. */
export interface FolderView {
  /** Files that were not compared yet. */
  readonly waiting: number;
  /** Files that could not be used, and wait for a person. */
  readonly failed: number;
  /** Why the folder cannot be used, or why its file has to wait. */
  readonly trouble?: string | undefined;
}

type SeenFolder = FolderView & { readonly at: number };

/**
 * What is seen now; hosts that share a folder see the same.
 * @returns undefined when no process looks at one
 */
export function folderAt(now: number, all: readonly SeenFolder[]): FolderView | undefined {
  const views = all.filter(({ at }) => now - at < FOLDER_MS);
  if (views.length === 0) return undefined;
  return {
    waiting: Math.max(...views.map(({ waiting }) => waiting)),
    failed: Math.max(...views.map(({ failed }) => failed)),
    trouble: views.find(({ trouble }) => trouble !== undefined)?.trouble,
  };
}

export class ReconcileRuns extends Store {
  /** Of the process that reconciles by itself. */
  readonly lease = this.leaseFor(this.keys.reconcileOwner, RUN_LEASE_MS);

  async ended(source: RunSource, run: ReconcileRun): Promise<void> {
    await this.write("HSET", this.keys.reconcileRun, source, JSON.stringify(run));
  }

  /** By what began it; undefined before the first one has ended. */
  last(): Reading<Readonly<Partial<Record<RunSource, ReconcileRun>>>> {
    return hashReading(this.keys.reconcileRun, (text) => JSON.parse(text) as ReconcileRun);
  }

  /** Until when scheduled runs are done, ms; `now` at the first time: what was before is not due. */
  async scheduledUntil(now: number): Promise<number> {
    const key = this.keys.reconcileSchedule;
    await this.write("HSETNX", key, "done", now);
    const done = Number(await this.redis.hget(key, "done"));
    if (done <= now) return done;
    // A clock that was ahead has written it: it would keep every run away until then.
    await this.scheduleDone(now);
    return now;
  }

  async scheduleDone(until: number): Promise<void> {
    await this.write("HSET", this.keys.reconcileSchedule, "done", until);
  }

  /** Shares when the next scheduled run is due; still told once that time has come. @param at ms */
  async noteNext(at: number): Promise<void> {
    await this.write("HSET", this.keys.reconcileSchedule, "next", at);
  }

  /** Nothing is scheduled any more. */
  async unschedule(): Promise<void> {
    await this.redis.del(this.keys.reconcileSchedule);
    // A failed run of a schedule that is no more would be an alert without an end.
    await this.redis.hdel(this.keys.reconcileRun, "schedule");
  }

  /** When the next scheduled run is due, or was due and has not ended; undefined: none is scheduled. */
  nextAt(): Reading<number | undefined> {
    return jsonReading("hget", this.keys.reconcileSchedule, "next");
  }

  /** @param now ms */
  async noteFolder(host: string, view: FolderView, now: number): Promise<void> {
    const key = this.keys.reconcileFolders;
    await this.write("HSET", key, host, JSON.stringify({ ...view, at: now }));
    await this.redis.pexpire(key, FOLDER_MS);
  }

  /** A process on this host does not look at its folder any more. */
  async leaveFolder(host: string): Promise<void> {
    await this.redis.hdel(this.keys.reconcileFolders, host);
  }

  /** Of all hosts; see folderAt. */
  folders(): Reading<readonly SeenFolder[]> {
    return reading(["hgetall", this.keys.reconcileFolders], (field: Record<string, string>) =>
      Object.values(field).map((text) => JSON.parse(text) as SeenFolder),
    );
  }

  /** `asOf` of the newest export of this kind that was carried out, ms. */
  async newest(kind: string): Promise<number | undefined> {
    const at = await this.redis.zscore(this.keys.reconcileNewest, hashOf(kind));
    return at === null ? undefined : Number(at);
  }

  async noteNewest(kind: string, asOf: number): Promise<void> {
    const key = this.keys.reconcileNewest;
    await this.write("ZADD", key, "GT", asOf, hashOf(kind));
    await this.redis.zremrangebyrank(key, 0, -MOST_KINDS - 1);
  }
}

/** A kind is made from a file's name, which may name a person. */
const hashOf = (kind: string): string => digestOf(kind).slice(0, 22);
