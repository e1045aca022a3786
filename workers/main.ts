/** The daemon: starts the roles of one process in order, and ends them in reverse order. */
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT_CONFIG } from "../src/config.ts";
import { redisTarget } from "../src/ops/connect-redis.ts";
import { giveMemoryBack } from "../src/ops/give-memory-back.ts";
import { meetRedis } from "../src/ops/open-redis.ts";
import type { Shutdown } from "../src/ops/shutdown.ts";
import type { ServiceAddress } from "../src/service/open-service.ts";
import type { Role } from "../src/state/heartbeats.ts";
import { tokenName } from "../src/state/known-service.ts";
import type { StateVersionError } from "../src/state/state-version.ts";
import { keepApprovals } from "./approved-plans.ts";
import { startAuditing } from "./audit.ts";
import { keepClock } from "./clock.ts";
import { expireReconcileFiles, startSweep } from "./sweep.ts";
import { keepCrmsChecked } from "./crm-checks.ts";
import { startFetch } from "./fetch.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { serveHttp, type HttpAddresses } from "./http.ts";
import { startIntake, adoptKeptFields } from "./intake.ts";
import { startProbing } from "./probe.ts";
import { createRuntime, type Runtime, type RuntimeOptions } from "./runtime.ts";
import { startNotifying } from "./notify.ts";
import { startPulling } from "./pull.ts";
import { openKeyring, keepSealed } from "./reseal.ts";
import { meetService } from "./known-service.ts";
import { startReconciling } from "./reconcile.ts";
import { rewriteAof } from "./rewrite-aof.ts";
import { openServiceAccess, type ServiceAccess } from "./service-access.ts";
import { watchStateAge } from "./state-age.ts";
import { requireState, watchStateVersion } from "./state-version.ts";
import { startSync } from "./sync.ts";
import { keepTenantKnown, meetTenant } from "./tenant.ts";
import { keepTenantLists } from "./tenant-lists.ts";
import { startTelling } from "./tell-outcomes.ts";
import { startVerifying } from "./verify.ts";
import { keepLedgerWarm } from "./warm-up.ts";

/** How long a start waits for Redis before it serves without, ms. */
const REDIS_WAIT_MS = 2000;

export interface DaemonOptions extends RuntimeOptions {
  readonly roles: ReadonlySet<Role>;
  /** Needed by the role sync. */
  readonly service: ServiceAddress | undefined;
  /** Opens the console in a trial, where there are no tokens for people. */
  readonly trialToken?: string | undefined;
  readonly shutdown: Shutdown;
}

/** @returns the addresses of its HTTP servers. */
export async function startDaemon(options: DaemonOptions): Promise<HttpAddresses> {
  const { config, redisUrl, roles, log, shutdown } = options;
  await meetRedis(redisTarget(config, redisUrl), REDIS_WAIT_MS);
  const runtime = shutdown.closes("redis", createRuntime(options));
  // Nothing works on a state of another version. While Redis is away, only HTTP answers.
  const mayWork = requireState(runtime);
  // A start without Redis is notified, too.
  shutdown.closes("notifications", startNotifying(runtime, mayWork));
  await Promise.race([mayWork, sleep(REDIS_WAIT_MS)]);
  shutdown.closes("memory", giveMemoryBack());
  shutdown.closes("clock", keepClock(runtime));
  // Before any work begins: a port that is in use ends the start without having sent anything.
  const http = await serveHttp(runtime, roles, {
    deadlineMs: REDIS_WAIT_MS,
    ends: () => shutdown.isRequested,
    trialToken: options.trialToken,
  });
  shutdown.add("http connections", () => http.close(shutdown.isPatient));
  await mayWork;
  await openKeyring(runtime);
  if (roles.has("intake")) await adoptKeptFields(runtime);
  await runtime.clock.known;
  shutdown.closes(
    "state version",
    watchStateVersion(runtime, (error) => void endWith(error, options)),
  );
  shutdown.closes("outcomes", startTelling(runtime));
  shutdown.closes("sweep", startSweep(runtime));
  // Ends late: a slow CRM must not keep requests to the service from being settled.
  if (roles.has("intake")) {
    await runtime.crmChecks.current();
    shutdown.closes("fetch", startFetch(runtime));
    shutdown.closes("pulls", startPulling(runtime));
    shutdown.closes("checks of the CRMs", keepCrmsChecked(runtime));
  }
  const service = roles.has("sync") ? options.service : undefined;
  shutdown.closes("heartbeat", startHeartbeat(runtime, roles, service));
  shutdown.closes("approvals", keepApprovals(runtime));
  shutdown.closes("redis file", rewriteAof(runtime));
  shutdown.closes("sealing", keepSealed(runtime));
  shutdown.closes("files of reconcile", expireReconcileFiles(runtime));
  shutdown.closes("state age", watchStateAge(runtime, roles, service));
  shutdown.closes("audit trail", startAuditing(runtime, roles));
  const access = service && (await openKnownService(runtime, service, shutdown));
  const lists = shutdown.closes("value lists", keepTenantLists(runtime, access));
  if (service !== undefined && access !== undefined) {
    shutdown.closes("sync", startSync(runtime, access));
    // A line that cannot be written must not keep sync from ending.
    shutdown.add("audit retries", () => runtime.trail?.giveUp());
    shutdown.closes("reconcile", startReconciling(runtime, redisUrl, service));
  }
  if (roles.has("intake")) {
    const intake = lists.known.then(() => startIntake(runtime));
    shutdown.add("intake", async () => (await intake).close());
  }
  // Closes the port first. Requests under way are answered while the other parts end.
  shutdown.add("http", () => void http.close(shutdown.isPatient).catch(() => {}));
  const { url, opsUrl } = http;
  log.info(
    { roles: [...roles], url, ops_url: opsUrl, mapping: runtime.mapping.name },
    "daemon.started",
  );
  return { url, opsUrl };
}

async function endWith(error: StateVersionError, { log, shutdown }: DaemonOptions): Promise<void> {
  log.fatal({ err: error }, "state.other_version");
  await shutdown.run();
  process.exit(EXIT_CONFIG);
}

/** Starts what every process with access to the service does beside syncing. */
async function openKnownService(
  runtime: Runtime,
  service: ServiceAddress,
  shutdown: Shutdown,
): Promise<ServiceAccess> {
  await meetService(runtime, service.baseUrl, () => shutdown.isRequested);
  // Asked first: a token that needs no check is taken over by the next line.
  const isKnown = await runtime.knownService.hasToken(tokenName(service.token()));
  await meetTenant(runtime, service.token());
  const access = shutdown.closes("service", openServiceAccess(runtime, service));
  shutdown.closes("tenant", keepTenantKnown(runtime, access, service));
  shutdown.closes("probe", startProbing(runtime, access, isKnown !== true));
  shutdown.closes("warm-up", keepLedgerWarm(runtime, access));
  shutdown.closes("verify", startVerifying(runtime, access));
  return access;
}
