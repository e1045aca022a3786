/** The daemon: starts the roles of one process in order, and ends them in reverse order. */
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT_CONFIG } from "../src/base/config.ts";
import { redisTarget } from "../src/base/connect-redis.ts";
import { giveMemoryBack } from "../src/base/give-memory-back.ts";
import { meetRedis } from "../src/base/open-redis.ts";
import type { Shutdown } from "../src/base/shutdown.ts";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import type { Role } from "../src/core/state/heartbeats.ts";
import { tokenName } from "../src/core/state/known-service.ts";
import type { StateVersionError } from "../src/core/state/state-version.ts";
import { startAuditing } from "./audit.ts";
import { Chores } from "./chores.ts";
import { startFetch } from "./fetch.ts";
import { serveHttp, type HttpAddresses } from "./http.ts";
import { startIntake, adoptKeptFields } from "./intake.ts";
import { meetService } from "./known-service.ts";
import { openParts, type Parts, type PartsOptions } from "./parts.ts";
import { openKeyring } from "./reseal.ts";
import { openServiceAccess, type ServiceAccess } from "./service-access.ts";
import { requireState } from "./state-guards.ts";
import { startSync } from "./sync.ts";
import { AT_SERVING, AT_START, AT_WORK, OF_INTAKE, OF_LISTS, OF_SERVICE } from "./chore-table.ts";
import { meetTenant } from "./tenant.ts";
import { keepTenantLists } from "./tenant-lists.ts";

/** How long a start waits for Redis before it serves without, ms. */
const REDIS_WAIT_MS = 2000;

export interface DaemonOptions extends PartsOptions {
  readonly roles: ReadonlySet<Role>;
  /** Needed by the role sync. */
  readonly service: ServiceAddress | undefined;
  /** Opens the console in a trial, where there are no tokens for people. */
  readonly trialToken?: string | undefined;
  readonly shutdown: Shutdown;
  /** Called when HTTP answers, also while Redis is away. */
  readonly onServing?: (() => void) | undefined;
}

/** @returns the addresses of its HTTP servers. */
export async function startDaemon(options: DaemonOptions): Promise<HttpAddresses> {
  const { config, redisUrl, roles, log, shutdown } = options;
  await meetRedis(redisTarget(config, redisUrl), REDIS_WAIT_MS);
  const parts = shutdown.closes("redis", openParts(options));
  // Nothing works on a state of another version. While Redis is away, only HTTP answers.
  const mayWork = requireState(parts);
  const chores = shutdown.closes("chores", new Chores(parts, roles));
  // A start without Redis is notified, too.
  chores.start(AT_START, { parts, mayWork });
  await Promise.race([mayWork, sleep(REDIS_WAIT_MS)]);
  chores.start(AT_SERVING, { parts, mayWork });
  shutdown.closes("memory", giveMemoryBack());
  // Before any work begins: a port that is in use ends the start without having sent anything.
  const http = await serveHttp(parts, roles, {
    deadlineMs: REDIS_WAIT_MS,
    ends: () => shutdown.isRequested,
    trialToken: options.trialToken,
  });
  shutdown.add("http connections", () => http.close(shutdown.isPatient));
  options.onServing?.();
  await mayWork;
  await openKeyring(parts);
  if (roles.has("intake") && (await parts.mappingGate.isOpen())) await adoptKeptFields(parts);
  await parts.clock.known;
  shutdown.closes("audit trail", startAuditing(parts, roles));
  // Ends late: a slow CRM must not keep requests to the service from being settled.
  if (roles.has("intake")) {
    await parts.crmChecks.current();
    shutdown.closes("fetch", startFetch(parts));
  }
  const service = roles.has("sync") ? options.service : undefined;
  const onOther = (error: StateVersionError) => void endWith(error, options);
  const { signal } = chores;
  chores.start(AT_WORK, { parts, roles, redisUrl, service, onOther, signal });
  const access = service && (await openKnownService(parts, service, chores, shutdown));
  // After sync, and before what the chores use.
  shutdown.closes("chores", chores);
  const lists = keepTenantLists(parts, access);
  chores.start(OF_LISTS, lists);
  if (access !== undefined) {
    shutdown.closes("sync", startSync(parts, access));
    // A line that cannot be written must not keep sync from ending.
    shutdown.add("audit retries", () => parts.trail?.giveUp());
  }
  if (roles.has("intake")) {
    const intake = lists.known.then(() => {
      const started = startIntake(parts);
      chores.start(OF_INTAKE, started);
      return started;
    });
    shutdown.add("intake", async () => (await intake).close());
  }
  shutdown.add("passes of chores", () => chores.stop());
  // Closes the port first. Requests under way are answered while the other parts end.
  shutdown.add("http", () => void http.close(shutdown.isPatient).catch(() => {}));
  const { url, opsUrl } = http;
  log.info(
    { roles: [...roles], url, ops_url: opsUrl, mapping: parts.mapping.name },
    "daemon.started",
  );
  return { url, opsUrl };
}

async function endWith(error: StateVersionError, { log, shutdown }: DaemonOptions): Promise<void> {
  log.fatal({ err: error }, "state.other_version");
  await shutdown.run();
  process.exit(EXIT_CONFIG);
}

/** Makes sure of the service and of the token's tenant, and starts the chores that need them. */
async function openKnownService(
  parts: Parts,
  service: ServiceAddress,
  chores: Chores,
  shutdown: Shutdown,
): Promise<ServiceAccess> {
  await meetService(parts, service.baseUrl, () => shutdown.isRequested);
  // Asked first: a token that needs no check is taken over by the next line.
  const isKnown = await parts.knownService.hasToken(tokenName(service.token()));
  await meetTenant(parts, service.token());
  const access = shutdown.closes("service", openServiceAccess(parts, service));
  chores.start(OF_SERVICE, { parts, access, service, isNewToken: isKnown !== true });
  return access;
}
