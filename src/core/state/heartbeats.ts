/** Which processes run: each writes a heartbeat; a process without a recent heartbeat counts as ended. */
import { nowReading, reading, readTogether, type Reading } from "../../base/redis-reading.ts";
import { Store } from "./store.ts";

/** How often a process writes its heartbeat, ms. */
const HEARTBEAT_EVERY_MS = 5000;

/** A process whose heartbeat is late by this much hangs or was killed, ms. */
const QUIET_MS = 7000;

/** A process whose heartbeat is late by this much counts as ended, ms. */
const ENDED_AFTER_MS = 25_000;

/** For how long the last heartbeat is kept of a process that ended without leaving, ms. */
const KEPT_MS = 3_600_000;

/** The parts of the daemon's work that a process may do. */
export const ROLES = ["http", "intake", "sync"] as const;
export type Role = (typeof ROLES)[number];

export interface ProcessInfo {
  /** `<host>:<pid>-<chance>` */
  readonly id: string;
  readonly version: string;
  readonly roles: readonly string[];
  readonly startedAt: number;
  /** How long Redis takes to answer it, ms; not known at its very start. */
  readonly pingMs?: number;
  /** How far its machine's clock is ahead of Redis' clock, ms; negative: behind. */
  readonly clockAheadMs?: number;
  /** Id of the key that Redis is sealed with, if the process does not have it. */
  readonly lacksKey?: string;
  /** Why it cannot write its audit trail, and so sends nothing. */
  readonly auditFailure?: string;
  /** Why its token is not known to be of the ledger's tenant, and so it sends nothing. */
  readonly tokenDoubt?: TokenDoubt;
  /** Secrets of which it goes on with a former value, each with its file and why. */
  readonly secretProblems?: readonly string[];
  /** Its mapping, while another person must approve it: it maps no event. */
  readonly mappingWaits?: WaitingMapping;
  /** Host of the identity provider, and why nobody can sign in there. */
  readonly signInProblem?: string;
  /** Mark of each named operator's token → the name; absent: none has a name. */
  readonly holders?: Readonly<Record<string, string>>;
  /** Settings that must be the same in all processes that have them. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** The last time that it did not run although it should have. */
  readonly frozen?: Freeze;
}

export interface WaitingMapping {
  readonly name: string;
  /** `sha256:<hex>`; undefined: it is a module, which cannot be approved. */
  readonly hash: string | undefined;
  /** By Redis' clock, ms. */
  readonly since: number;
}

/** `foreign`: with it, the service has nothing of what the ledger knows. Others: the kind of its reply. */
export type TokenDoubt = "foreign" | "denied" | "rejected" | "throttled" | "unavailable";

/** By Redis' clock, ms. */
export interface Freeze {
  readonly from: number;
  readonly to: number;
}

export interface RunningProcess extends ProcessInfo {
  /** When Redis received its last heartbeat, ms. */
  readonly seenAt: number;
}

export class Heartbeats extends Store {
  readonly #beat = this.script<null>("beat");

  async beat({ startedAt, pingMs, clockAheadMs, ...same }: ProcessInfo): Promise<void> {
    const differs = JSON.stringify({ startedAt, pingMs, clockAheadMs });
    await this.#beat([this.keys.heartbeats], [same.id, JSON.stringify(same), differs, KEPT_MS]);
  }

  async leave(id: string): Promise<void> {
    await this.redis.hdel(this.keys.heartbeats, id, `${id}@`);
  }

  async running(): Promise<RunningProcess[]> {
    const { now, all } = await readTogether(this.redis, { now: nowReading, all: this.all() });
    return runningAt(now, all);
  }

  /** The last heartbeats of all processes that have not left, in no order. */
  all(): Reading<RunningProcess[]> {
    return reading(["hgetall", this.keys.heartbeats], (fields: Record<string, string>) =>
      Object.keys(fields)
        .filter((field) => !field.endsWith("@"))
        .map((id) => {
          const [same = "{}", differs = "{}"] = [fields[id], fields[`${id}@`]];
          return { ...JSON.parse(same), ...JSON.parse(differs) } as RunningProcess;
        }),
    );
  }
}

/** How late its heartbeat is, ms; negative: it is not due yet. */
const lateMs = (now: number, { seenAt }: RunningProcess): number =>
  now - seenAt - HEARTBEAT_EVERY_MS;

/** Whether a process hangs or was killed, by its late heartbeat. @param now Redis' time, ms */
export const isQuiet = (now: number, one: RunningProcess): boolean => lateMs(now, one) > QUIET_MS;

/** The processes that run, oldest first. @param now Redis' time, ms */
export const runningAt = (now: number, all: readonly RunningProcess[]): RunningProcess[] =>
  all
    .filter((one) => lateMs(now, one) <= ENDED_AFTER_MS)
    .sort((a, b) => a.startedAt - b.startedAt || a.id.localeCompare(b.id));
