/**
 * The product inside of the test's process: real HTTP, a real Redis and all parts of a daemon, without the second
 * that a process takes to start. What is about processes, signals, pipes or the embedded Redis uses crmsync.ts.
 */
import { examineConfig } from "../../src/base/config.ts";
import { startEmbeddedRedis } from "../../src/base/embedded-redis.ts";
import { loadMapping } from "../../src/intake/mapping/load-mapping.ts";
import { createLog } from "../../src/base/log.ts";
import { Shutdown } from "../../src/base/shutdown.ts";
import { NO_TRACING } from "../../src/base/tracing.ts";
import { VERSION } from "../../src/base/version.ts";
import { startSandbox, type SandboxOptions } from "../../src/sandbox/serve.ts";
import { ROLES, type Role } from "../../src/core/state/heartbeats.ts";
import { startDaemon } from "../../workers/main.ts";
import {
  daemonAt,
  DAEMON_ENV,
  sandboxAt,
  type DaemonAccess,
  type SandboxAccess,
} from "./crmsync.ts";
import { waitFor } from "./wait-for.ts";

/** Its limits are so wide that no test reaches them. */
const WIDE = { perHour: 1_000_000, burst: 100_000 };

/** It may be closed before its test ends. */
export type LocalSandbox = SandboxAccess & AsyncDisposable;

export interface LocalSandboxOptions extends Pick<SandboxOptions, "limits" | "policy"> {
  /** Its database; without one nothing is kept on the disk. */
  readonly db?: string;
}

/** Without limits of the test's own, no test reaches them. */
export async function localSandbox({
  db = ":memory:",
  ...options
}: LocalSandboxOptions = {}): Promise<LocalSandbox> {
  const sandbox = await startSandbox({ database: db, limits: WIDE, faults: true, ...options });
  const { faultsUrl, token, url } = sandbox;
  let closed: Promise<void> | undefined;
  return {
    ...sandboxAt({ url, token: token ?? "", faultsUrl: faultsUrl ?? "" }),
    [Symbol.asyncDispose]: () => (closed ??= sandbox.close()),
  };
}

export interface LocalDaemon extends DaemonAccess, AsyncDisposable {
  /** What it has logged. */
  readonly log: readonly string[];
  /** The first line that matches, now or soon. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
}

/** `/events` needs no token. @param env with REDIS_URL, or with DATA_DIR for an embedded Redis */
export async function localDaemon(
  env: Readonly<Record<string, string>>,
  roles: ReadonlySet<Role> = new Set(ROLES),
): Promise<LocalDaemon> {
  const { config, problems } = examineConfig({ ...DAEMON_ENV, ...env });
  const { DATA_DIR: dataDir, SERVICE_BASE_URL: baseUrl } = config;
  const hasRedis = config.REDIS_URL !== undefined || env["DATA_DIR"] !== undefined;
  if (!hasRedis || problems.length > 0) {
    throw new Error(`cannot start in this process: ${problems.join("; ") || "no REDIS_URL"}`);
  }
  const lines: string[] = [];
  const log = createLog(config.LOG_LEVEL, {
    destination: { write: (text) => void lines.push(text.trimEnd()) },
  });
  const shutdown = new Shutdown(log);
  const token = () => config.secrets.SERVICE_TOKEN?.value() ?? "";
  const mapping = await loadMapping(config.MAPPING);
  const embedded =
    config.REDIS_URL === undefined ? await startEmbeddedRedis({ dataDir, log }) : undefined;
  if (embedded !== undefined) shutdown.add("embedded redis", () => embedded.close());
  const redisUrl = config.REDIS_URL ?? embedded?.url ?? "";
  const shared = { config, log, mapping, redisUrl, roles, shutdown, tracing: NO_TRACING };
  const service = baseUrl === undefined ? undefined : { baseUrl, token };
  const close = () => shutdown.run();
  const { url, opsUrl } = await startDaemon({ ...shared, service, version: VERSION }).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  return {
    ...daemonAt({ url, opsUrl, redisUrl }, env),
    log: lines,
    line: (pattern) =>
      waitFor(() => lines.map((line) => pattern.exec(line)).find((match) => match !== null), {
        what: `a line that matches ${pattern}`,
      }),
    [Symbol.asyncDispose]: close,
  };
}
