import { crmsync } from "../base/command.ts";
import { Command, Option } from "commander";
import { ConfigError, examineConfig, settingOf, type Config } from "../base/config.ts";
import {
  hashProblems,
  mistypedVariables,
  startProblems,
  type Mistyped,
} from "../whole/start-problems.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import { webhookProblems } from "../intake/mapping/webhooks/webhook.ts";
import { changeLevelOnSignal, createLog, logWarnings, type Logger } from "../base/log.ts";
import { withoutPassword } from "../base/redis-url.ts";
import { Shutdown } from "../base/shutdown.ts";
import { tellSystemd } from "../base/systemd.ts";
import { NO_TRACING, type Tracing } from "../base/tracing.ts";
import { VERSION } from "../base/version.ts";
import { templateOf } from "../core/service/client.ts";
import type { ServiceAddress } from "../core/service/open-service.ts";
import { pullProblems } from "../intake/pull/pulled-crms.ts";
import { ROLES, type Role } from "../core/state/heartbeats.ts";
import { startDaemon, type DaemonOptions } from "../../workers/main.ts";
import { oneOf } from "./arguments.ts";
import { explainPort } from "./explain-port.ts";
import { printJson } from "./output.ts";
import { join } from "node:path";
import { startEmbeddedRedis } from "../base/embedded-redis.ts";

interface StartOptions {
  readonly roles: ReadonlySet<Role>;
  readonly sandbox?: true;
  readonly json?: true;
}

function parseRoles(text: string): ReadonlySet<Role> {
  return new Set(text.split(",").map((name) => oneOf(ROLES)(name.trim())));
}

export function startCommand(): Command {
  return new Command("start")
    .description("run the daemon (configured by environment variables)")
    .addOption(
      new Option("--roles <names>", `the roles of this process: ${ROLES.join(",")}`)
        .argParser(parseRoles)
        .default(new Set(ROLES), "all"),
    )
    .option(
      "--sandbox",
      "start an embedded service, stored under DATA_DIR, instead of using a real one",
    )
    .option("--json", "print one line of JSON with its addresses on stdout")
    .action(start);
}

async function start(options: StartOptions): Promise<void> {
  const { config, problems } = examineConfig();
  const { roles } = options;
  const all = [
    ...problems,
    ...(options.sandbox || !roles.has("sync") ? [] : serviceProblems(config, problems)),
    ...stdoutProblems(config, options),
    ...(await startProblems(config, roles)),
  ];
  if (all.length > 0) refuse([...all, ...mistypedVariables(config).map(mistypedText)]);
  const mapping = await loadMapping(config.MAPPING);
  // Without this check only the senders would notice a missing secret, by a 401 for each request.
  if (roles.has("http")) refuse(webhookProblems(mapping.webhooks, config));
  if (roles.has("intake"))
    refuse([...pullProblems(config, mapping), ...hashProblems(config, mapping)]);
  let tracing = NO_TRACING;
  const log = createLog(config.LOG_LEVEL, {
    ...(isForPeople(config, process.stderr) && { destination: await textDestination() }),
    context: () => tracing.spanIds?.() ?? {},
  });
  if (!isForPeople(config, process.stderr)) logWarnings(log);
  changeLevelOnSignal(log);
  const shutdown = new Shutdown(log, config.SHUTDOWN_DELAY_MS);
  shutdown.onSignals();
  const defect = (error: unknown) => {
    log.fatal({ err: error }, "daemon.defect");
    process.exit(70);
  };
  process.on("unhandledRejection", defect).on("uncaughtException", defect);
  try {
    tracing = shutdown.closes("traces", await tracingOf(config, log));
    log.info({ version: VERSION, node: process.version, roles: [...roles] }, "daemon.starting");
    for (const one of mistypedVariables(config)) log.warn({ ...one }, "config.variable_unread");
    await startParts(options, { config, mapping, log, tracing, shutdown });
  } catch (error) {
    await shutdown.run();
    throw error;
  }
}

type Shared = Pick<DaemonOptions, "config" | "log" | "mapping" | "shutdown" | "tracing">;

async function startParts({ json, roles, ...options }: StartOptions, shared: Shared) {
  const { config, log, shutdown } = shared;
  const redisUrl = config.REDIS_URL ?? (await ownRedis(config, log, shutdown));
  const sandbox = options.sandbox ? await ownService(config, log, shutdown) : undefined;
  const service = sandbox ? addressOf(sandbox) : roles.has("sync") ? serviceOf(config) : undefined;
  const reached = sandbox ? withService(sandbox, config) : config;
  const onServing = () => void shutdown.closes("systemd", tellSystemd(log));
  const given = { config: reached, roles, redisUrl, service, version: VERSION, onServing };
  const trialToken = sandbox?.token;
  const { url, opsUrl } = await startDaemon({ ...shared, ...given, trialToken }).catch(
    (error: unknown) => {
      throw explainPorts(error, config);
    },
  );
  if (json) {
    const shown = withoutPassword(redisUrl);
    const line = { url, opsUrl, pid: process.pid, redisUrl: shown, serviceUrl: service?.baseUrl };
    printJson(line);
  } else if (config.AUDIT_LOG !== "stdout" && isForPeople(config, process.stdout)) {
    process.stdout.write(
      addressesText({ config, version: VERSION, roles, url, opsUrl, redisUrl, sandbox }),
    );
  }
}

/** People read a terminal; programs read everything else, unless LOG_FORMAT says otherwise. */
function isForPeople({ LOG_FORMAT }: Config, stream: NodeJS.WriteStream): boolean {
  return LOG_FORMAT === undefined ? stream.isTTY : LOG_FORMAT === "text";
}

async function textDestination() {
  return (await import("../base/log-text.ts")).textOnStderr();
}

const serviceOf = (config: Config): ServiceAddress => ({
  baseUrl: config.SERVICE_BASE_URL ?? "",
  token: () => config.secrets.SERVICE_TOKEN?.value() ?? "",
});

const addressOf = ({ url, token }: OwnService): ServiceAddress => ({
  baseUrl: url,
  token: () => token,
});

async function tracingOf(config: Config, log: Logger): Promise<Tracing> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return NO_TRACING;
  // OpenTelemetry is loaded only when a collector is configured.
  const { openTracing } = await import("../base/tracing-otel.ts");
  const { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio } = config;
  const headers = settingOf(config, "OTEL_EXPORTER_OTLP_HEADERS");
  return openTracing({ sampler, ratio, templateOf, headers, version: VERSION, log });
}

function explainPorts(error: unknown, { HTTP_HOST, OPS_HOST = HTTP_HOST, OPS_PORT }: Config) {
  const { port, hostname } = error as { port?: number; hostname?: string };
  const isOpsHost = hostname === OPS_HOST && OPS_HOST !== HTTP_HOST;
  const isOps = OPS_PORT !== undefined && (port === OPS_PORT || isOpsHost);
  return isOps
    ? explainPort(error, "OPS_PORT", OPS_HOST, "OPS_HOST")
    : explainPort(error, "HTTP_PORT", HTTP_HOST);
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigError(problems);
}

const stdoutProblems = ({ AUDIT_LOG }: Config, { json }: StartOptions): string[] =>
  AUDIT_LOG === "stdout" && json !== undefined
    ? ["AUDIT_LOG=stdout needs stdout for itself: leave out --json"]
    : [];

const mistypedText = ({ variable, meant }: Mistyped): string =>
  `${variable} is set, and crmsync does not read it: was ${meant} meant?`;

/** `start` never falls back to the sandbox by itself: that would look like success. */
function serviceProblems(config: Config, known: readonly string[]): string[] {
  const isMissing = (name: string, value: unknown): boolean =>
    value === undefined &&
    !known.some((problem) => problem.startsWith(`${name} `) || problem.startsWith(`${name}_FILE `));
  return [
    ...(isMissing("SERVICE_BASE_URL", config.SERVICE_BASE_URL)
      ? [
          "SERVICE_BASE_URL is missing: the address of the service without /v1.1 (or give --sandbox)",
        ]
      : []),
    ...(isMissing("SERVICE_TOKEN", config.secrets.SERVICE_TOKEN)
      ? ["SERVICE_TOKEN or SERVICE_TOKEN_FILE is missing: the bearer token of the service"]
      : []),
  ];
}

export interface Addresses {
  readonly config: Config;
  readonly version: string;
  readonly roles: ReadonlySet<Role>;
  readonly url: string;
  /** Where /status, /records, /metrics, /console and /queues are. */
  readonly opsUrl: string;
  readonly redisUrl: string;
  /** With --sandbox. */
  readonly sandbox: { readonly url: string; readonly token: string } | undefined;
}

export function addressesText(addresses: Addresses): string {
  const { config, version, roles, url, opsUrl, redisUrl, sandbox } = addresses;
  const rows: [name: string, where: string][] = [];
  if (roles.has("http")) {
    rows.push(["events", `${url}/events   (POST; ${credentialsOf(config)})`]);
    rows.push(["webhooks", `${url}/webhooks/<name>   (POST; docs/webhooks.md)`]);
  }
  rows.push(
    ["status", `${opsUrl}/status   (also: ${crmsync`status`})`],
    ["metrics", `${opsUrl}/metrics`],
  );
  const { OPERATOR_TOKEN, VIEWER_TOKEN } = config.secrets;
  if (OPERATOR_TOKEN !== undefined || VIEWER_TOKEN !== undefined)
    rows.push(["console", `${opsUrl}/console`], ["queues", `${opsUrl}/queues`]);
  else if (config.OIDC_ISSUER !== undefined) rows.push(["console", `${opsUrl}/console`]);
  else if (sandbox !== undefined)
    rows.push(["console", `${opsUrl}/console`], ["token", `${sandbox.token}   (of the console)`]);
  if (sandbox !== undefined) rows.push(["sandbox", `${sandbox.url}/#token=${sandbox.token}`]);
  if (config.REDIS_URL === undefined)
    rows.push([
      "Redis",
      `${withoutPassword(redisUrl)}   (with its password: ${crmsync`redis-url`})`,
    ]);
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, where]) => `  ${name.padEnd(width)}  ${where}\n`);
  return `\ncrmsync ${version} is up. Ctrl-C ends it.\n\n${lines.join("")}\n`;
}

function credentialsOf({ INGEST_AUTH, secrets }: Config): string {
  if (INGEST_AUTH !== undefined) return "no token needed";
  const { INGEST_TOKEN, INGEST_SECRET } = secrets;
  if (INGEST_TOKEN !== undefined) return "with the bearer token INGEST_TOKEN";
  if (INGEST_SECRET !== undefined) return "signed with INGEST_SECRET";
  return "answers 401 without INGEST_TOKEN; for a trial set INGEST_AUTH=none";
}

export async function ownRedis(config: Config, log: Logger, shutdown: Shutdown): Promise<string> {
  const redis = await startEmbeddedRedis({ dataDir: config.DATA_DIR, log });
  shutdown.add("embedded redis", () => redis.close());
  void stopWith(redis.exited, log, shutdown);
  return redis.url;
}

/** Without its Redis the daemon can only end; the data stays on the disk. */
async function stopWith(
  exited: Promise<string | undefined>,
  log: Logger,
  shutdown: Shutdown,
): Promise<void> {
  const reason = await exited;
  if (reason === undefined) return;
  log.fatal({ reason }, "redis.gave_up");
  await shutdown.run();
  process.exit(1);
}

export interface OwnService {
  readonly url: string;
  readonly token: string;
}

export async function ownService(
  config: Config,
  log: Logger,
  shutdown: Shutdown,
): Promise<OwnService> {
  const [{ startSandbox }, { withUserErrors }] = await Promise.all([
    import("../sandbox/serve.ts"),
    import("./sandbox/user-errors.ts"),
  ]);
  const options = {
    port: config.SANDBOX_PORT,
    database: join(config.DATA_DIR, "sandbox.db"),
    tokenFile: tokenFileOf(config),
    limits: {
      perHour: config.QUOTA_PER_HOUR,
      hourMs: config.QUOTA_HOUR_MS,
      burst: config.QUOTA_BURST,
      burstMs: config.QUOTA_BURST_MS,
    },
    onError: (error: unknown) => log.error({ err: error }, "sandbox.defect"),
  };
  const sandbox = await withUserErrors(() =>
    startSandbox(options).catch((error: unknown) => {
      throw explainPort(error, "SANDBOX_PORT");
    }),
  );
  shutdown.add("sandbox", () => sandbox.close());
  const token = sandbox.token ?? sandbox.createToken();
  log.info({ url: sandbox.url, token_file: tokenFileOf(config) }, "sandbox.started");
  return { url: sandbox.url, token };
}

/**
 * The token is that of the embedded service. Requests go straight to it, also on a machine whose other requests need a
 * proxy.
 */
export const withService = ({ token, url }: OwnService, config: Config): Config => ({
  ...config,
  SERVICE_BASE_URL: url,
  secrets: {
    ...config.secrets,
    SERVICE_TOKEN: { file: tokenFileOf(config), value: () => token, problem: () => undefined },
  },
  NO_PROXY: [config.NO_PROXY, new URL(url).host].filter(Boolean).join(","),
});

const tokenFileOf = ({ DATA_DIR }: Config): string => join(DATA_DIR, "sandbox.token");
