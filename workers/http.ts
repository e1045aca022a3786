/**
 * The HTTP servers of a process: one for senders, and for people and Prometheus either the same one
 * or, with OPS_PORT, another one. Every role has them; only the role http accepts events.
 */
import type { AddressInfo } from "node:net";
import { drainable, type Drain } from "../src/http/connections.ts";
import { serveHealth, serveMetrics } from "../src/http/health.ts";
import { protectOps } from "../src/http/ops-access.ts";
import { serveRecords } from "../src/http/records.ts";
import { serveStatus } from "../src/http/status.ts";
import { storyOf } from "../src/history/story.ts";
import { CONTENT_TYPES } from "../src/ops/exposition.ts";
import { isLoopback } from "../src/ops/loopback.ts";
import type { Role } from "../src/state/heartbeats.ts";
import { stopFindings } from "../src/status/findings.ts";
import { takeReadings } from "../src/status/readings.ts";
import { readStatus } from "../src/status/status.ts";
import { KEY_NOT_CHECKED, serveHttpIntake } from "./http-intake.ts";
import { createServer, type HttpServer } from "./http-server.ts";
import type { Runtime } from "./runtime.ts";

export interface HttpAddresses {
  readonly url: string;
  /** Where /status, /metrics, /queues and /console are. */
  readonly opsUrl: string;
}

export interface HttpStart {
  /** How long to wait for Redis before requests are answered without it. */
  readonly deadlineMs: number;
  /** Whether the process has been asked to end. */
  readonly ends: () => boolean;
  readonly trialToken?: string | undefined;
}

export async function serveHttp(
  runtime: Runtime,
  roles: ReadonlySet<Role>,
  { deadlineMs, ends, trialToken }: HttpStart,
): Promise<Drain & HttpAddresses> {
  const { config, intakeClient } = runtime;
  const { HTTP_HOST, HTTP_PORT, OPS_HOST = HTTP_HOST, OPS_PORT } = config;
  const senders = createServer(runtime);
  const ops = OPS_PORT === undefined ? senders : createServer(runtime);
  const all = [...new Set([senders, ops])];
  const drains = all.map(({ app }) => drainable(app));
  for (const { app } of all) serveReadiness(app, runtime, ends);
  await serveOps(ops, runtime, trialToken);
  if (roles.has("http")) serveHttpIntake(senders, runtime);
  await intakeClient.connected(deadlineMs);
  const url = await listen(senders.app, HTTP_HOST, HTTP_PORT);
  const opsUrl = OPS_PORT === undefined ? url : await listen(ops.app, OPS_HOST, OPS_PORT);
  warnIfOpen(runtime, OPS_HOST);
  return {
    url,
    opsUrl,
    async close(patient) {
      await Promise.all(drains.map((drain) => drain.close(patient)));
    },
  };
}

function serveReadiness(app: HttpServer["app"], runtime: Runtime, ends: () => boolean): void {
  serveHealth(app, {
    notReady: async () => (ends() ? ["the process ends"] : reasonsNotReady(runtime)),
    notSending: () => reasonsNotSending(runtime),
  });
}

/** What people and Prometheus look at. */
async function serveOps(server: HttpServer, runtime: Runtime, trial?: string): Promise<void> {
  const { app, count } = server;
  const { config, metrics, provider } = runtime;
  const { OPERATOR_TOKEN: operator, VIEWER_TOKEN: viewer } = config.secrets;
  const hasToken = operator !== undefined || viewer !== undefined;
  // The pages' libraries are larger than the rest of the server: loaded only when they are needed.
  const page = hasToken ? await import("./queues-page.ts") : undefined;
  const isTrial = !hasToken && provider === undefined && trial !== undefined;
  const hasConsole = hasToken || isTrial || provider !== undefined;
  const console = hasConsole ? await import("./console-page.ts") : undefined;
  const tokens = {
    viewer: viewer && (() => viewer.value()),
    operator: operator && (() => operator.value()),
  };
  const ofConsole = isTrial ? { ...tokens, operator: () => trial } : tokens;
  void app.register(async (scope) => console?.serveConsolePage(scope, server, runtime, ofConsole));
  void app.register(async (scope) => {
    protectOps(scope, tokens, count, !hasToken && provider === undefined);
    serveStatus(scope, () => readStatus(runtime, runtime.version, runtime.statusRedis));
    serveRecords(scope, (name) => storyOf(runtime, name, runtime.mapping));
    serveMetrics(scope, async (accept) => {
      const format = metrics.formatFor(accept);
      return { type: CONTENT_TYPES[format], text: await runtime.scrape.text(format) };
    });
    await page?.serveQueuesPage(scope, runtime);
  });
}

function warnIfOpen({ config, log, provider }: Runtime, host: string): void {
  const { OPERATOR_TOKEN, VIEWER_TOKEN } = config.secrets;
  const isOpen = OPERATOR_TOKEN === undefined && VIEWER_TOKEN === undefined;
  if (isOpen && provider === undefined && !isLoopback(host)) log.warn({ host }, "http.open_to_all");
}

async function listen(app: HttpServer["app"], host: string, port: number): Promise<string> {
  await app.listen({ host, port });
  const address = app.server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

/** Only what keeps events from being accepted. A denial is no reason: accepted changes are kept. */
async function reasonsNotReady({ intakeClient, keyring }: Runtime): Promise<string[]> {
  const closed = await intakeClient.whyClosed();
  const why = closed ?? (keyring.isOpen ? undefined : KEY_NOT_CHECKED);
  return why === undefined ? [] : [why];
}

async function reasonsNotSending(runtime: Runtime): Promise<string[]> {
  return stopFindings(await takeReadings(runtime, runtime.statusRedis)).map(({ says }) => says);
}
