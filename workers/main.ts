/** The daemon: the roles that one process plays, brought up in order and let go in reverse. */
import type { AddressInfo } from "node:net";
import type { Config } from "../src/config.ts";
import { serveHealth } from "../src/http/health.ts";
import { createHttpServer } from "../src/http/server.ts";
import { serveStatus } from "../src/http/status.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import type { Logger } from "../src/ops/log.ts";
import { ROLES } from "../src/ops/metrics.ts";
import type { Shutdown } from "../src/ops/shutdown.ts";
import type { Tracing } from "../src/ops/tracing.ts";
import { startFetch } from "./fetch.ts";
import { isFull, redisHealth } from "../src/state/redis-health.ts";
import { startIntake } from "./intake.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { stopsFound } from "../src/status/findings.ts";
import { readingsInTime } from "../src/status/readings.ts";
import { createRuntime, type Runtime } from "./runtime.ts";
import { openServiceAccess } from "./service-access.ts";
import { readStatus } from "../src/status/status.ts";
import { serveHttpIntake } from "./http-intake.ts";
import { startSweep } from "./sweep.ts";
import { startSync } from "./sync.ts";
import { keepTenantLists } from "./tenant-lists.ts";

export { ROLES };
export type Role = (typeof ROLES)[number];

/** A start waits this long for Redis before it serves without, ms. */
const REDIS_WAIT_MS = 2000;

export interface DaemonOptions {
  readonly config: Config;
  readonly roles: ReadonlySet<Role>;
  readonly redisUrl: string;
  /** Where the service is, and the token in force; needed by the role sync. */
  readonly service: { readonly baseUrl: string; token(): string } | undefined;
  readonly version: string;
  /** Closed with the daemon. */
  readonly mapping: Mapping;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly shutdown: Shutdown;
}

/** @returns the address of its HTTP server, if it has that role. */
export async function startDaemon(options: DaemonOptions): Promise<{ url: string | undefined }> {
  const { config, roles, log, shutdown } = options;
  const runtime = createRuntime(
    config,
    options.redisUrl,
    options.version,
    log,
    options.mapping,
    options.tracing,
  );
  shutdown.add("redis", () => runtime.close());

  const sweep = startSweep(runtime);
  shutdown.add("sweep", async () => (await sweep).close());

  const presence = startHeartbeat(runtime, options.version, roles);
  shutdown.add("presence", () => presence.close());

  const service = roles.has("sync") ? options.service : undefined;
  const access = service && openServiceAccess(runtime, service);
  if (access !== undefined) shutdown.add("service", () => access.close());
  const lists = keepTenantLists(runtime, access);
  shutdown.add("value lists", () => lists.close());
  if (access !== undefined) {
    const sync = startSync(runtime, access);
    shutdown.add("sync", () => sync.close());
  }
  if (roles.has("intake")) {
    const fetch = startFetch(runtime);
    shutdown.add("fetch", () => fetch.close());
    const intake = lists.known.then(() => startIntake(runtime));
    shutdown.add("intake", async () => (await intake).close());
  }
  const url = await serve(runtime, options, shutdown);
  log.info({ roles: [...roles], url, mapping: runtime.mapping.name }, "daemon.started");
  return { url };
}

/** Health and metrics are served in every role; events only in the role http. */
async function serve(
  runtime: Runtime,
  { roles, version }: Pick<DaemonOptions, "roles" | "version">,
  shutdown: Shutdown,
): Promise<string> {
  const { config, log, metrics } = runtime;
  const app = createHttpServer((error) => log.error({ err: error }, "http.defect"));
  serveHealth(app, {
    notReady: async () => reasonsNotReady(runtime),
    notSending: async () => reasonsNotSending(runtime),
    metrics: () => metrics.text(),
    metricsType: metrics.contentType,
  });
  serveStatus(app, () => readStatus(runtime, version));
  if (roles.has("http")) {
    app.addHook("onResponse", async (request, reply) => {
      metrics.answered(request.routeOptions.url, reply.statusCode);
    });
    traceIntake(app, runtime.tracing);
    serveHttpIntake(app, runtime, version);
  }
  // A page for people is larger than the rest of the server: loaded only where it is wanted.
  if (runtime.config.secrets.OPERATOR_TOKEN !== undefined) {
    await (await import("./queues-page.ts")).serveQueuesPage(app, runtime);
  }
  await runtime.intakeClient.connected(REDIS_WAIT_MS);
  await app.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT });
  shutdown.add("http", () => app.close());
  const { port } = app.server.address() as AddressInfo;
  const host = config.HTTP_HOST.includes(":") ? `[${config.HTTP_HOST}]` : config.HTTP_HOST;
  return `http://${host}:${port}`;
}

/** What comes in by the doors begins a trace, once its body is there. */
function traceIntake(app: ReturnType<typeof createHttpServer>, tracing: Tracing): void {
  const ends = new WeakMap<object, (status: number) => void>();
  app.addHook("preHandler", (request, _reply, done) => {
    const { method, url } = request.routeOptions;
    if (request.method !== "POST" || url === undefined) return done();
    ends.set(request, tracing.serve(String(method), url, done));
  });
  app.addHook("onResponse", async (request, reply) => {
    ends.get(request)?.(reply.statusCode);
  });
}

/**
 * Only what keeps events from being taken: a door that the service has closed is no reason to turn
 * senders away, since their changes are kept.
 */
async function reasonsNotReady({ intakeClient, redis }: Runtime): Promise<string[]> {
  if (!(await intakeClient.answers())) return ["redis does not answer"];
  return isFull(await redisHealth(redis)) ? ["redis is full"] : [];
}

async function reasonsNotSending(runtime: Runtime): Promise<string[]> {
  const readings = await readingsInTime(runtime);
  return readings === undefined ? [] : stopsFound(readings).map(({ says }) => says);
}
