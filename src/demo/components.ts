/** The components of the demo: Redis and the daemon, each a process of its own, and the service. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { readConfig } from "../base/config.ts";
import { redisTarget } from "../base/connect-redis.ts";
import { makePrivateDir } from "../base/data-dir.ts";
import { startEmbeddedRedis } from "../base/embedded-redis.ts";
import { openRedis, type RedisTarget } from "../base/open-redis.ts";
import type { RedisTlsFiles } from "../base/redis-tls.ts";
import { API_PREFIX, BURST_REQUESTS, REQUESTS_PER_HOUR } from "../core/service-spec/limits.ts";
import { UserError } from "../base/user-error.ts";
import { startSandbox } from "../sandbox/serve.ts";
import { provideRedisServer } from "./install-redis-server.ts";
import { ProcessFailed, superviseDaemon } from "./supervisor.ts";

/** Short, so that what a killed daemon held is soon free again: the sandbox answers in milliseconds. */
const SERVICE_TIMEOUT_MS = 5000;

export interface Clock {
  readonly hourMs: number;
  readonly burstMs: number;
}

export type Components = Awaited<ReturnType<typeof startComponents>>;

export interface StartOptions {
  readonly clock: Clock;
  /** A new or empty directory, which is kept; undefined: a temporary one. */
  readonly dataDir: string | undefined;
  readonly say: (text: string) => void;
}

/** Starts all of them; `stack` stops them. */
export async function startComponents(options: StartOptions, stack: AsyncDisposableStack) {
  const { clock, say } = options;
  const dataDir = await prepareDir(options.dataDir, stack);
  const redis = await provideRedis(dataDir, say, stack);

  const tokenFile = join(dataDir, "service.token");
  const sandbox = await startSandbox({
    database: join(dataDir, "sandbox.db"),
    tokenFile,
    limits: { ...clock, perHour: REQUESTS_PER_HOUR, burst: BURST_REQUESTS },
    policy: "sliding",
    // The address for faults also counts the requests; no fault is armed.
    faults: true,
  });
  stack.defer(async () => sandbox.close());
  const service = {
    url: sandbox.url,
    token: sandbox.token ?? "",
    faultsUrl: sandbox.faultsUrl ?? "",
  };

  const ingestToken = randomBytes(24).toString("base64url");
  const daemon = superviseDaemon({
    env: {
      ...redis.env,
      SERVICE_BASE_URL: service.url,
      SERVICE_TOKEN_FILE: tokenFile,
      INGEST_TOKEN: ingestToken,
      QUOTA_HOUR_MS: String(clock.hourMs),
      QUOTA_BURST_MS: String(clock.burstMs),
      // A large demo deletes more in its hour than a person would approve.
      TERMINATE_LIMIT: "unlimited",
      EMPTY_LIMIT: "unlimited",
      SERVICE_TIMEOUT_MS: String(SERVICE_TIMEOUT_MS),
      DATA_DIR: dataDir,
    },
    logFile: join(dataDir, "daemon.log"),
    onExit: (how) => say(`the daemon exited (${how}) and is being restarted; the CRM continues`),
  });
  stack.defer(async () => daemon.stop());
  const daemonUrl = await daemon.start();
  // Rejects when one of them cannot be restarted.
  const failed = Promise.race([daemon.failed, redis.failed]);
  failed.catch(() => {});
  return { dataDir, redis, service, daemonUrl, ingestToken, daemon, failed };
}

async function prepareDir(given: string | undefined, stack: AsyncDisposableStack): Promise<string> {
  if (given === undefined) {
    const dir = await mkdtemp(join(tmpdir(), "crmsync-demo-"));
    stack.defer(async () => rm(dir, { recursive: true, force: true }));
    return dir;
  }
  const dir = resolve(given);
  if (existsSync(dir) && (await readdir(dir)).length > 0) {
    throw new UserError(
      `${dir} is not empty. Each demo starts without data: give it a new directory.`,
    );
  }
  makePrivateDir(dir);
  return dir;
}

/** With the variables by which a process reaches it: the Redis of REDIS_URL, from which our keys are removed at the end, or one of our own. */
async function provideRedis(
  dataDir: string,
  say: (text: string) => void,
  stack: AsyncDisposableStack,
) {
  const config = readConfig();
  const { REDIS_URL: url, QUEUE_PREFIX } = config;
  if (url !== undefined) {
    const prefix = `{crmsync-demo-${randomBytes(4).toString("hex")}}`;
    const target = redisTarget({ ...config, QUEUE_PREFIX: prefix }, url);
    stack.defer(async () => removeKeys(target));
    return { ...target, env: envOf(target, config), failed: new Promise<never>(() => {}) };
  }
  const report = ({ reason }: { reason?: unknown }): void =>
    say(`redis-server exited (${String(reason)}) and is being restarted`);
  const log = { info: () => {}, error: report };
  await provideRedisServer();
  const redis = await startEmbeddedRedis({ dataDir, log });
  stack.defer(async () => redis.close());
  const failed = new Promise<never>((_, reject) => {
    void redis.exited.then((reason) => {
      if (reason) reject(new ProcessFailed(`redis-server keeps exiting: ${reason}`));
    });
  });
  failed.catch(() => {});
  const target = { url: redis.url, prefix: QUEUE_PREFIX };
  return { ...target, env: envOf(target), failed };
}

function envOf({ url, prefix }: RedisTarget, files: RedisTlsFiles = {}): Record<string, string> {
  const { REDIS_CA_FILE, REDIS_CERT_FILE, REDIS_KEY_FILE } = files;
  return {
    REDIS_URL: url,
    QUEUE_PREFIX: prefix,
    ...(REDIS_CA_FILE && { REDIS_CA_FILE }),
    ...(REDIS_CERT_FILE && { REDIS_CERT_FILE }),
    ...(REDIS_KEY_FILE && { REDIS_KEY_FILE }),
  };
}

async function removeKeys(target: RedisTarget): Promise<void> {
  const redis = openRedis(target, { maxRetriesPerRequest: 1 });
  redis.on("error", () => {});
  try {
    let cursor = "0";
    do {
      const [next, keys] = await redis.scan(cursor, "MATCH", `*${target.prefix}*`, "COUNT", 1000);
      cursor = next;
      if (keys.length > 0) await redis.unlink(...keys);
    } while (cursor !== "0");
  } finally {
    redis.disconnect();
  }
}

/** Addresses and commands to try while the demo keeps its processes running (--keep). */
export function renderAddresses(components: Components): string {
  const { daemonUrl, ingestToken, service, redis, dataDir } = components;
  const event = {
    specversion: "1.0",
    source: "/by-hand",
    type: "crm.record.updated",
    subject: "client/by-hand",
    data: { record: { type: "Person", crmCode: "by-hand", firstName: "Ada", lastName: "Muster" } },
  };
  // Each push needs a new id: the same id would be a duplicate.
  const body = JSON.stringify(event).replace("{", `{"id":"'$(date +%s)'",`);
  return `
Everything runs until Ctrl-C.
  daemon   ${daemonUrl}   (/metrics, /readyz; its log: ${dataDir}/daemon.log)
  service  ${service.url}/#token=${service.token}
  Redis    ${redis.url}   (QUEUE_PREFIX=${redis.prefix})

Push an event:
  curl -sS ${daemonUrl}/events -H 'authorization: Bearer ${ingestToken}' \\
    -H 'content-type: application/cloudevents+json' \\
    -d '${body}'

See it on the service:
  curl -sS ${service.url}${API_PREFIX}/business-relations/by-hand \\
    -H 'authorization: Bearer ${service.token}'

Push one through BullMQ, without any code of crmsync:
  REDIS_URL='${redis.url}' QUEUE_PREFIX='${redis.prefix}' node examples/push-with-bullmq.mjs
`;
}
