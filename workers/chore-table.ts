/**
 * The chores of a process: what it does again and again beside events, changes and requests over HTTP. Where only one
 * process may do it at a time, the pass takes a lease or a claim in Redis first.
 */
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import type { Role } from "../src/core/state/heartbeats.ts";
import type { StateVersionError } from "../src/core/state/state-version.ts";
import { keepApprovals } from "./approved-plans.ts";
import { logHead, noteInterruptions, writeActs } from "./audit.ts";
import type { Chore, Step } from "./chores.ts";
import { heartbeat } from "./heartbeat.ts";
import { notify } from "./notify.ts";
import type { Parts } from "./parts.ts";
import { probeDenied } from "./probe.ts";
import { checkCrms, pullChanges } from "./pull.ts";
import { sendQuality } from "./quality.ts";
import { reconcile } from "./reconcile.ts";
import { keepSealed } from "./reseal.ts";
import { watchSecrets } from "./secrets.ts";
import type { ServiceAccess } from "./service-access.ts";
import { checkAge, checkVersion, measureClock } from "./state-guards.ts";
import { expireReconcileFiles, rewriteAof, sweep } from "./sweep.ts";
import { tellOutcomes } from "./tell-outcomes.ts";
import type { TenantListsKeeper } from "./tenant-lists.ts";
import { keepTenantKnown } from "./tenant.ts";
import { keepLedgerWarm } from "./warm-up.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;

interface Given {
  readonly parts: Parts;
  /** Resolves once this process may work on the state in Redis. */
  readonly mayWork: Promise<unknown>;
}

/** Also before the version of the state is known, and while Redis is away. */
export const AT_START: readonly Chore<Given>[] = [
  {
    name: "notifications",
    everyMs: 5 * SECOND,
    isOfHour: true,
    work: ({ parts, mayWork }) => notify(parts, mayWork),
    fails: "notify.error",
  },
];

/** Not on a state of another version: it writes. */
export const AT_SERVING: readonly Chore<Given>[] = [
  {
    name: "clock",
    everyMs: 2 * SECOND,
    work: ({ parts }) => measureClock(parts),
  },
];

export interface GivenAtWork {
  readonly parts: Parts;
  readonly roles: ReadonlySet<Role>;
  readonly redisUrl: string;
  /** Of the role sync. */
  readonly service: ServiceAddress | undefined;
  readonly onOther: (error: StateVersionError) => void;
  readonly signal: AbortSignal;
}

/** From when on this process may work on the state in Redis. */
export const AT_WORK: readonly Chore<GivenAtWork>[] = [
  {
    name: "state version",
    everyMs: SECOND,
    isGuard: true,
    work: ({ parts, onOther }) => checkVersion(parts, onOther),
  },
  {
    name: "state age",
    everyMs: SECOND,
    isGuard: true,
    work: ({ parts, roles, service }) => checkAge(parts, roles.has("intake"), service),
  },
  {
    name: "heartbeat",
    everyMs: 5 * SECOND,
    work: ({ parts, roles, service }) => heartbeat(parts, roles, service),
  },
  {
    name: "sweep",
    everyMs: 10 * SECOND,
    work: ({ parts }) => sweep(parts),
    fails: "sweep.failed",
  },
  {
    name: "secrets",
    everyMs: 5 * SECOND,
    work: ({ parts }) => watchSecrets(parts),
  },
  {
    name: "sealing",
    everyMs: 5 * SECOND,
    work: ({ parts }) => keepSealed(parts),
    fails: "state.sealing_failed",
  },
  {
    name: "approvals",
    // Longer than a killed process counts as running: the first look after a start must not end its rule.
    everyMs: 40 * SECOND,
    work: ({ parts }) => keepApprovals(parts),
    fails: "approvals.rule_not_kept",
  },
  {
    name: "outcomes",
    everyMs: 5 * SECOND,
    isOfHour: true,
    work: ({ parts }) => tellOutcomes(parts),
    fails: "outcomes.error",
  },
  {
    name: "old files",
    everyMs: 10 * MINUTE,
    work: ({ parts }) => expireReconcileFiles(parts),
    fails: "reconcile.list_kept",
  },
  {
    name: "redis file",
    everyMs: 5 * SECOND,
    work: ({ parts }) => rewriteAof(parts),
    fails: "redis.rewrite_failed",
  },
  {
    name: "CRM checks",
    everyMs: 30 * SECOND,
    role: "intake",
    work: ({ parts }) => checkCrms(parts),
    fails: "crm.not_checked",
  },
  {
    name: "pulls",
    everyMs: SECOND,
    role: "intake",
    work: ({ parts, signal }) => pullChanges(parts, signal),
    fails: "pull.failed",
  },
  {
    name: "audit acts",
    everyMs: SECOND,
    role: "sync",
    work: ({ parts }) => parts.trail && writeActs(parts, parts.trail),
  },
  {
    name: "interruptions",
    everyMs: 10 * SECOND,
    role: "sync",
    work: ({ parts }) => parts.trail && noteInterruptions(parts),
  },
  {
    name: "audit head",
    everyMs: 60 * MINUTE,
    role: "sync",
    work: ({ parts }) => parts.trail && logHead(parts, parts.trail),
  },
  {
    name: "reconcile",
    everyMs: 2 * SECOND,
    role: "sync",
    work: ({ parts, redisUrl, service }) => service && reconcile(parts, redisUrl, service),
    fails: "reconcile.look_failed",
  },
  {
    name: "flaws",
    everyMs: 10 * SECOND,
    role: "sync",
    work: ({ parts }) => sendQuality(parts),
  },
];

interface GivenService {
  readonly parts: Parts;
  readonly access: ServiceAccess;
  readonly service: ServiceAddress;
  /** Whether no process has sent with this process's token before. */
  readonly isNewToken: boolean;
}

/** With access to the service. */
export const OF_SERVICE: readonly Chore<GivenService>[] = [
  {
    name: "tenant",
    everyMs: SECOND,
    role: "sync",
    work: ({ access, parts, service }) => keepTenantKnown(parts, access, service),
    fails: "service.tenant_unchecked",
  },
  {
    name: "probe",
    everyMs: SECOND,
    role: "sync",
    work: ({ access, isNewToken, parts }) => probeDenied(parts, access, isNewToken),
    fails: "probe.failed",
  },
  {
    name: "warm-up",
    // For so long, a lost ledger may go unnoticed.
    everyMs: SECOND,
    role: "sync",
    work: ({ access, parts }) => keepLedgerWarm(parts, access),
    fails: "ledger.warm_up_interrupted",
  },
];

/** What events wait for. */
export const OF_LISTS: readonly Chore<TenantListsKeeper>[] = [
  {
    name: "value lists",
    everyMs: 5 * SECOND,
    work: (keeper) => keeper,
    fails: "value_lists.check_failed",
  },
];

export const OF_INTAKE: readonly Chore<{ readonly hold: Step }>[] = [
  {
    name: "memory",
    // It asks Redis the more rarely, the more room there is.
    everyMs: SECOND / 5,
    role: "intake",
    work: ({ hold }) => hold,
  },
];

/** All of them, as docs/architecture.md shows them. */
export const CHORES = [AT_START, AT_SERVING, AT_WORK, OF_SERVICE, OF_LISTS, OF_INTAKE].flat();
