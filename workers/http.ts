/**
 * The HTTP servers of a process: one for senders, and for people and Prometheus either the same one
 * or, with OPS_PORT, another one. Every role has them; only the role http accepts events.
 */
import type { AddressInfo } from "node:net";
import { drainable, type Drain } from "../src/intake/http/connections.ts";
import {
  serveHealth,
  serveMetrics,
  protectOps,
  serveRecords,
  serveStatus,
} from "../src/intake/http/ops-routes.ts";
import { CONTENT_TYPES } from "../src/base/exposition.ts";
import { isLoopback } from "../src/base/loopback.ts";
import type { Role } from "../src/core/state/heartbeats.ts";
import { stopFindings } from "../src/operate/status/findings.ts";
import { statusOf } from "../src/operate/status/status.ts";
import {
  createServer,
  KEY_NOT_CHECKED,
  serveHttpIntake,
  type HttpIntakeParts,
  type HttpServer,
} from "./http-intake.ts";
import type { ConsoleParts } from "./console-page.ts";
import type { Uses } from "./parts.ts";

export interface HttpAddresses {
  readonly url: string;
  /** Where /status, /metrics, /queues and /console are. */
  readonly opsUrl: string;
}

type OpsParts = ConsoleParts &
  Uses<"config" | "inbox" | "metrics" | "readings" | "scrape" | "story">;

type ReadyParts = Uses<"intakeClient" | "keyring" | "readings">;

export interface HttpStart {
  /** How long to wait for Redis before requests are answered without it. */
  readonly deadlineMs: number;
  /** Whether the process has been asked to end. */
  readonly ends: () => boolean;
  readonly trialToken?: string | undefined;
}

export async function serveHttp(
  parts: HttpIntakeParts & OpsParts & ReadyParts,
  roles: ReadonlySet<Role>,
  { deadlineMs, ends, trialToken }: HttpStart,
): Promise<Drain & HttpAddresses> {
  const { config, intakeClient } = parts;
  const { HTTP_HOST, HTTP_PORT, OPS_HOST = HTTP_HOST, OPS_PORT } = config;
  const senders = createServer(parts);
  const ops = OPS_PORT === undefined ? senders : createServer(parts);
  const all = [...new Set([senders, ops])];
  const drains = all.map(({ app }) => drainable(app));
  for (const { app } of all) serveReadiness(app, parts, ends);
  await serveOps(ops, parts, trialToken);
  if (roles.has("http")) serveHttpIntake(senders, parts);
  await intakeClient.connected(deadlineMs);
  const url = await listen(senders.app, HTTP_HOST, HTTP_PORT);
  const opsUrl = OPS_PORT === undefined ? url : await listen(ops.app, OPS_HOST, OPS_PORT);
  warnIfOpen(parts, OPS_HOST);
  return {
    url,
    opsUrl,
    async close(patient) {
      await Promise.all(drains.map((drain) => drain.close(patient)));
    },
  };
}

function serveReadiness(app: HttpServer["app"], parts: ReadyParts, ends: () => boolean): void {
  serveHealth(app, {
    notReady: async () => (ends() ? ["the process ends"] : reasonsNotReady(parts)),
    notSending: () => reasonsNotSending(parts),
  });
}

/** What people and Prometheus look at. */
async function serveOps(server: HttpServer, parts: OpsParts, trial?: string): Promise<void> {
  const { app, count } = server;
  const { config, inbox, metrics, provider, readings, scrape, story, version } = parts;
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
  void app.register(async (scope) => console?.serveConsolePage(scope, server, parts, ofConsole));
  void app.register(async (scope) => {
    protectOps(scope, tokens, count, !hasToken && provider === undefined);
    serveStatus(scope, async () => statusOf(await readings(), config, version));
    serveRecords(scope, story);
    serveMetrics(scope, async (accept) => {
      const format = metrics.formatFor(accept);
      return { type: CONTENT_TYPES[format], text: await scrape.text(format) };
    });
    await page?.serveQueuesPage(scope, inbox);
  });
}

function warnIfOpen({ config, log, provider }: OpsParts, host: string): void {
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
async function reasonsNotReady({ intakeClient, keyring }: ReadyParts): Promise<string[]> {
  const closed = await intakeClient.whyClosed();
  const why = closed ?? (keyring.isOpen ? undefined : KEY_NOT_CHECKED);
  return why === undefined ? [] : [why];
}

async function reasonsNotSending({ readings }: ReadyParts): Promise<string[]> {
  return stopFindings(await readings()).map(({ says }) => says);
}
