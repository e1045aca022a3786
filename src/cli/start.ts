import { Command, Option } from "commander";
import { ConfigError, examineConfig, settingOf, type Config } from "../config.ts";
import { mistypedVariables, startProblems, type Mistyped } from "../start-problems.ts";
import { loadMapping } from "../mapping/load-mapping.ts";
import { webhookProblems } from "../mapping/webhooks/secrets.ts";
import { changeLevelOnSignal, createLog, type Logger } from "../ops/log.ts";
import { withoutPassword } from "../ops/redis-url.ts";
import { Shutdown } from "../ops/shutdown.ts";
import { NO_TRACING, type Tracing } from "../ops/tracing.ts";
import { VERSION } from "../ops/version.ts";
import { templateOf } from "../service/client.ts";
import type { ServiceAddress } from "../service/open-service.ts";
import { pullProblems } from "../pull/pulled-crms.ts";
import { ROLES, type Role } from "../state/heartbeats.ts";
import { startDaemon, type DaemonOptions } from "../../workers/main.ts";
import { oneOf } from "./choice.ts";
import { explainPort } from "./explain-port.ts";
import { printJson } from "./output.ts";
import { addressesText } from "./start-addresses.ts";
import { ownRedis, ownService, withService, type OwnService } from "./start-embedded.ts";

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
  if (roles.has("intake")) refuse(pullProblems(config, mapping));
  let tracing = NO_TRACING;
  const log = createLog(config.LOG_LEVEL, {
    ...(isForPeople(config, process.stderr) && { destination: await textDestination() }),
    context: () => tracing.spanIds?.() ?? {},
  });
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
  const given = { config: reached, roles, redisUrl, service, version: VERSION };
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
  return (await import("../ops/log-text.ts")).textOnStderr();
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
  const { openTracing } = await import("../ops/tracing-otel.ts");
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
