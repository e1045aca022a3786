import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { ConfigError, readConfig, settingOf, type Config } from "../config.ts";
import { startEmbeddedRedis } from "../ops/embedded-redis.ts";
import { loadMapping } from "../mapping/load-mapping.ts";
import { changeLevelOnSignal, createLog, type Logger } from "../ops/log.ts";
import { Shutdown } from "../ops/shutdown.ts";
import { startTracing } from "../ops/start-tracing.ts";
import { NO_TRACING, type Tracing } from "../ops/tracing.ts";
import { VERSION } from "../ops/version.ts";
import { templateOf } from "../service/client.ts";
import { ROLES, type Role } from "../state/heartbeats.ts";
import { startDaemon } from "../../workers/main.ts";

interface StartOptions {
  readonly roles: ReadonlySet<Role>;
  readonly sandbox?: true;
  readonly json?: true;
}

function parseRoles(text: string): ReadonlySet<Role> {
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !(ROLES as readonly string[]).includes(name));
  if (unknown.length > 0 || names.length === 0) {
    throw new InvalidArgumentError(`roles are ${ROLES.join(", ")}; unknown: ${unknown.join(", ")}`);
  }
  return new Set(names as Role[]);
}

const SANDBOX_PORT = 4010;

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
  const config = readConfig();
  const { roles } = options;
  requireService(config, roles, options.sandbox === true);
  const mapping = await loadMapping(config.MAPPING);
  const log = createLog(config.LOG_LEVEL);
  changeLevelOnSignal(log);
  const shutdown = new Shutdown(log);
  shutdown.onSignals();
  const defect = (error: unknown) => {
    log.fatal({ err: error }, "daemon.defect");
    process.exit(70);
  };
  process.on("unhandledRejection", defect).on("uncaughtException", defect);

  const tracing = await tracingOf(config, log);
  shutdown.add("tracing", () => tracing.close());
  const redisUrl = config.REDIS_URL ?? (await ownRedis(config, log, shutdown));
  const service = options.sandbox
    ? await ownService(config, log, shutdown)
    : roles.has("sync")
      ? {
          baseUrl: config.SERVICE_BASE_URL ?? "",
          token: () => config.secrets.SERVICE_TOKEN?.value() ?? "",
        }
      : undefined;
  const daemon = await startDaemon({
    config,
    roles,
    redisUrl,
    service,
    version: VERSION,
    mapping,
    log,
    tracing,
    shutdown,
  });
  if (options.json) {
    const line = { url: daemon.url, pid: process.pid, redisUrl, serviceUrl: service?.baseUrl };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
}

async function tracingOf(config: Config, log: Logger): Promise<Tracing> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return NO_TRACING;
  return startTracing({
    protocol: config.OTEL_EXPORTER_OTLP_PROTOCOL,
    sampler: config.OTEL_TRACES_SAMPLER,
    ratio: config.OTEL_TRACES_SAMPLER_ARG,
    headers: settingOf(config, "OTEL_EXPORTER_OTLP_HEADERS"),
    version: VERSION,
    log,
    templateOf,
  });
}

/** `start` never falls back to the sandbox by itself: that would look like success. */
function requireService(config: Config, roles: ReadonlySet<Role>, sandbox: boolean): void {
  if (sandbox || !roles.has("sync")) return;
  const problems: string[] = [];
  if (config.SERVICE_BASE_URL === undefined) {
    problems.push(
      "SERVICE_BASE_URL is missing: the address of the service without /v1.1 (or give --sandbox)",
    );
  }
  if (config.secrets.SERVICE_TOKEN === undefined) {
    problems.push(
      "SERVICE_TOKEN or SERVICE_TOKEN_FILE is missing: the bearer token of the service",
    );
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

async function ownRedis(config: Config, log: Logger, shutdown: Shutdown): Promise<string> {
  const redis = await startEmbeddedRedis({ dataDir: config.DATA_DIR, log });
  shutdown.add("embedded redis", () => redis.close());
  void stopWith(redis.exited, log, shutdown);
  return redis.url;
}

/** Without its Redis the daemon can only end; the data stays on the disk. */
async function stopWith(
  exited: Promise<{ wanted: boolean; reason: string }>,
  log: Logger,
  shutdown: Shutdown,
): Promise<void> {
  const { wanted, reason } = await exited;
  if (wanted) return;
  log.fatal({ reason }, "redis.gave_up");
  await shutdown.run();
  process.exit(1);
}

async function ownService(config: Config, log: Logger, shutdown: Shutdown) {
  const { startSandbox } = await import("../sandbox/serve.ts");
  const options = {
    database: join(config.DATA_DIR, "sandbox.db"),
    tokenFile: join(config.DATA_DIR, "sandbox.token"),
    limits: {
      perHour: config.QUOTA_PER_HOUR,
      hourMs: config.QUOTA_HOUR_MS,
      burst: config.QUOTA_BURST,
      burstMs: config.QUOTA_BURST_MS,
    },
    onError: (error: unknown) => log.error({ err: error }, "sandbox.defect"),
  };
  // The port of `crmsync sandbox`, so that there is one address to remember.
  const sandbox = await startSandbox({ ...options, port: SANDBOX_PORT }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return startSandbox({ ...options, port: 0 });
  });
  shutdown.add("sandbox", () => sandbox.close());
  const token = sandbox.token ?? sandbox.createToken();
  log.info(
    { url: sandbox.url, token_file: join(config.DATA_DIR, "sandbox.token") },
    "sandbox.started",
  );
  return { baseUrl: sandbox.url, token: () => token };
}
