/** The daemon: starts the roles of one process in order, and ends them in reverse order. */
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT_CONFIG } from "../src/config.ts";
import { drainable, type Drain } from "../src/http/drain.ts";
import { serveHealth } from "../src/http/health.ts";
import { createHttpServer } from "../src/http/server.ts";
import { serveStatus } from "../src/http/status.ts";
import { CONTENT_TYPES } from "../src/ops/exposition.ts";
import { meetRedis } from "../src/ops/redis-script.ts";
import type { Shutdown } from "../src/ops/shutdown.ts";
import type { ServiceAddress } from "../src/service/open-service.ts";
import type { Role } from "../src/state/heartbeats.ts";
import type { StateVersionError } from "../src/state/state-version.ts";
import { stopFindings } from "../src/status/findings.ts";
import { takeReadings } from "../src/status/readings.ts";
import { readStatus } from "../src/status/status.ts";
import { keepClock } from "./clock.ts";
import { startFetch } from "./fetch.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { serveHttpIntake } from "./http-intake.ts";
import { startIntake } from "./intake.ts";
import { startProbing } from "./probe.ts";
import { createRuntime, type Runtime, type RuntimeOptions } from "./runtime.ts";
import { openKeyring } from "./keyring.ts";
import { keepSealed } from "./reseal.ts";
import { rewriteAof } from "./rewrite-aof.ts";
import { openServiceAccess, type ServiceAccess } from "./service-access.ts";
import { watchStateAge } from "./state-age.ts";
import { takeOverState, watchStateVersion } from "./state-version.ts";
import { startSweep } from "./sweep.ts";
import { startSync } from "./sync.ts";
import { keepTenantLists, type TenantListsKeeper } from "./tenant-lists.ts";
import { startVerifying } from "./verify.ts";
import { keepLedgerWarm } from "./warm-up.ts";

/** How long a start waits for Redis before it serves without, ms. */
const REDIS_WAIT_MS = 2000;

export interface DaemonOptions extends RuntimeOptions {
  readonly roles: ReadonlySet<Role>;
  /** Needed by the role sync. */
  readonly service: ServiceAddress | undefined;
  readonly shutdown: Shutdown;
}

/** @returns the address of its HTTP server. */
export async function startDaemon(options: DaemonOptions): Promise<{ url: string }> {
  const { redisUrl, roles, log, shutdown } = options;
  await meetRedis(redisUrl, REDIS_WAIT_MS);
  const runtime = createRuntime(options);
  shutdown.add("redis", () => runtime.close());
  // Nothing works on a state of another version. While Redis is away, only HTTP answers.
  const takenOver = takeOverState(runtime);
  await Promise.race([takenOver, sleep(REDIS_WAIT_MS)]);
  const clock = keepClock(runtime);
  shutdown.add("clock", () => clock.close());
  // Before any work begins: a port that is in use ends the start without having sent anything.
  const http = await serve(runtime, roles, shutdown);
  shutdown.add("http connections", () => http.close(shutdown.isPatient));
  await takenOver;
  await openKeyring(runtime);
  await runtime.clock.known;
  const stateVersion = watchStateVersion(runtime, (error) => void endWith(error, options));
  shutdown.add("state version", () => stateVersion.close());
  const sweep = startSweep(runtime);
  shutdown.add("sweep", () => sweep.close());
  // Ends late: a slow CRM must not keep requests to the service from being settled.
  if (roles.has("intake")) {
    const fetch = startFetch(runtime);
    shutdown.add("fetch", () => fetch.close());
  }
  const heartbeat = startHeartbeat(runtime, roles);
  shutdown.add("heartbeat", () => heartbeat.close());
  const rewriting = rewriteAof(runtime);
  shutdown.add("redis file", () => rewriting?.close());
  const sealed = keepSealed(runtime);
  shutdown.add("sealing", () => sealed.close());
  const stateAge = watchStateAge(runtime);
  shutdown.add("state age", () => stateAge.close());

  const service = roles.has("sync") ? options.service : undefined;
  const access = service && openServiceAccess(runtime, service);
  if (access !== undefined) startService(runtime, access, shutdown);
  const lists = keepTenantLists(runtime, access);
  shutdown.add("value lists", () => lists.close());
  if (access !== undefined) {
    const sync = startSync(runtime, access);
    shutdown.add("sync", () => sync.close());
  }
  if (roles.has("intake")) startIntakeRole(runtime, lists, shutdown);
  // Closes the port first. Requests under way are answered while the other parts end.
  shutdown.add("http", () => void http.close(shutdown.isPatient).catch(() => {}));
  const { url } = http;
  log.info({ roles: [...roles], url, mapping: runtime.mapping.name }, "daemon.started");
  return { url };
}

async function endWith(error: StateVersionError, { log, shutdown }: DaemonOptions): Promise<void> {
  log.fatal({ err: error }, "state.other_version");
  await shutdown.run();
  process.exit(EXIT_CONFIG);
}

/** What every process with access to the service does beside syncing. */
function startService(runtime: Runtime, access: ServiceAccess, shutdown: Shutdown): void {
  shutdown.add("service", () => access.close());
  const probing = startProbing(runtime, access);
  shutdown.add("probe", () => probing.close());
  const warming = keepLedgerWarm(runtime, access);
  shutdown.add("warm-up", () => warming.close());
  const verifying = startVerifying(runtime, access);
  shutdown.add("verify", () => verifying.close());
}

function startIntakeRole(runtime: Runtime, lists: TenantListsKeeper, shutdown: Shutdown): void {
  const intake = lists.known.then(() => startIntake(runtime));
  shutdown.add("intake", async () => (await intake).close());
}

/** Every role serves health, metrics and status; only the role http accepts events. */
async function serve(
  runtime: Runtime,
  roles: ReadonlySet<Role>,
  shutdown: Shutdown,
): Promise<Drain & { readonly url: string }> {
  const { config, log, metrics } = runtime;
  const app = createHttpServer((error) => log.error({ err: error }, "http.defect"));
  const drain = drainable(app);
  serveHealth(app, {
    notReady: async () => (shutdown.isRequested ? ["the process ends"] : reasonsNotReady(runtime)),
    notSending: () => reasonsNotSending(runtime),
    async metrics(accept) {
      const format = metrics.formatFor(accept);
      return { type: CONTENT_TYPES[format], text: await runtime.scrape(format) };
    },
  });
  serveStatus(app, () => readStatus(runtime, runtime.version, runtime.statusRedis));
  if (roles.has("http")) serveHttpIntake(app, runtime);
  // The page's library is larger than the rest of the server: loaded only when it is needed.
  if (config.secrets.OPERATOR_TOKEN !== undefined) {
    await (await import("./queues-page.ts")).serveQueuesPage(app, runtime);
  }
  await runtime.intakeClient.connected(REDIS_WAIT_MS);
  await app.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT });
  const { port } = app.server.address() as AddressInfo;
  const host = config.HTTP_HOST.includes(":") ? `[${config.HTTP_HOST}]` : config.HTTP_HOST;
  return { ...drain, url: `http://${host}:${port}` };
}

/** Only what keeps events from being accepted. A denial is no reason: accepted changes are kept. */
async function reasonsNotReady({ intakeClient }: Runtime): Promise<string[]> {
  const why = await intakeClient.whyClosed();
  return why === undefined ? [] : [why];
}

async function reasonsNotSending(runtime: Runtime): Promise<string[]> {
  return stopFindings(await takeReadings(runtime, runtime.statusRedis)).map(({ says }) => says);
}
