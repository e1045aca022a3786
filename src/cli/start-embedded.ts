/** What `start` brings along: a Redis where no REDIS_URL is given, and the service with --sandbox. */
import { join } from "node:path";
import type { Config } from "../config.ts";
import { startEmbeddedRedis } from "../ops/embedded-redis.ts";
import type { Logger } from "../ops/log.ts";
import type { Shutdown } from "../ops/shutdown.ts";
import { explainPort } from "./explain-port.ts";

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
  secrets: {
    ...config.secrets,
    SERVICE_TOKEN: { file: tokenFileOf(config), value: () => token, problem: () => undefined },
  },
  NO_PROXY: [config.NO_PROXY, new URL(url).host].filter(Boolean).join(","),
});

const tokenFileOf = ({ DATA_DIR }: Config): string => join(DATA_DIR, "sandbox.token");
