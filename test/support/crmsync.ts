/** The product as its users run it: real processes, real HTTP. */
import { parseSamples, sumOf } from "../../src/demo/daemon-metrics.ts";
import { readRelations, readRequests } from "../../src/demo/service-reader.ts";
import { findEmbeddedRedis } from "../../src/base/embedded-redis.ts";
import type { Status } from "../../src/operate/status/status.ts";
import { spawnCrmsync, type TestProcess } from "./process.ts";
import { waitFor } from "./wait-for.ts";

const READ_DEADLINE_MS = 240_000;

/** How a test uses a sandbox. */
export interface SandboxAccess {
  readonly url: string;
  readonly token: string;
  readonly faultsUrl: string;
  /**
   * All relations, terminated ones included, by crmCode. Each call spends a request of the quota, so a
   * test that counts answers 429 calls `requests()` first.
   */
  relations(): Promise<Map<string, Record<string, unknown>>>;
  /** How many requests were served, by `<operation> <status>`. */
  requests(): Promise<Record<string, number>>;
}

export interface SandboxProcess extends SandboxAccess, AsyncDisposable {
  readonly process: TestProcess;
}

export interface SandboxOptions {
  /** Its database; without one the sandbox keeps nothing on the disk. */
  readonly db?: string;
  /** Flags for its quota; without them no test reaches it. None: the limits of the specification. */
  readonly limits?: readonly string[];
  /** More flags of `crmsync sandbox`. */
  readonly flags?: readonly string[];
}

const WIDE = ["--per-hour", "1000000", "--burst", "100000"];

/** `crmsync sandbox` on a free port, with the address for faults. */
export async function startSandbox(options: SandboxOptions = {}): Promise<SandboxProcess> {
  const { db = ":memory:", limits = WIDE, flags = [] } = options;
  const always = ["--port", "0", "--db", db, "--faults", "--json"];
  const process = spawnCrmsync(["sandbox", ...always, ...limits, ...flags]);
  const [line] = await process.line(/^\{.*"url".*\}$/);
  const address = JSON.parse(line) as Pick<SandboxAccess, "url" | "token" | "faultsUrl">;
  return {
    process,
    ...sandboxAt(address),
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

export function sandboxAt(
  address: Pick<SandboxAccess, "url" | "token" | "faultsUrl">,
): SandboxAccess {
  return {
    ...address,
    async relations() {
      const all = await readRelations(address, AbortSignal.timeout(READ_DEADLINE_MS));
      return new Map(all.map((relation) => [String(relation["crmCode"]), relation]));
    },
    async requests() {
      const { operations } = await readRequests(address);
      return Object.fromEntries(
        Object.entries(operations).flatMap(([operation, statuses]) =>
          Object.entries(statuses).map(([status, n]) => [`${operation} ${status}`, n]),
        ),
      );
    },
  };
}

/** The sum of a metric's series whose labels contain all of `labels`. */
type Metrics = (name: string, labels?: Record<string, string>) => number;

/** How a test uses a daemon. */
export interface DaemonAccess {
  readonly url: string;
  readonly redisUrl: string;
  readonly metric: (...of: Parameters<Metrics>) => Promise<number>;
  /** All metrics as they are now: several of them cost one request. */
  metrics(): Promise<Metrics>;
  push(events: readonly unknown[]): Promise<Response>;
  /** What `GET /status` answers. */
  status(): Promise<Status>;
}

export interface DaemonProcess extends DaemonAccess, AsyncDisposable {
  readonly process: TestProcess;
}

/** A free port, and `/events` without a token. */
export const DAEMON_ENV = {
  HTTP_PORT: "0",
  SANDBOX_PORT: "0",
  INGEST_AUTH: "none",
  LOG_LEVEL: "warn",
};

/** `crmsync start` on a free port; `/events` needs no token. */
export async function startDaemon(
  env: Record<string, string>,
  args: readonly string[] = [],
): Promise<DaemonProcess> {
  const process = spawnCrmsync(["start", "--json", ...args], {
    env: { ...DAEMON_ENV, ...env },
  });
  const [line] = await process.line(/^\{.*"redisUrl".*\}$/);
  const { url, opsUrl } = JSON.parse(line) as Record<"url" | "opsUrl", string>;
  const redisUrl = env["REDIS_URL"] ?? (await findEmbeddedRedis(env["DATA_DIR"] ?? ".crmsync"));
  return {
    process,
    ...daemonAt({ url, opsUrl, redisUrl: redisUrl ?? "" }, env),
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

export function daemonAt(
  {
    url,
    opsUrl,
    redisUrl,
  }: { readonly url: string; readonly opsUrl: string; readonly redisUrl: string },
  env: Readonly<Record<string, string>>,
): DaemonAccess {
  const token = env["VIEWER_TOKEN"] ?? env["OPERATOR_TOKEN"];
  const headers: Record<string, string> =
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  const read = (path: string) => fetch(opsUrl + path, { headers });
  const metrics = async (): Promise<Metrics> => {
    const samples = parseSamples(await (await read("/metrics")).text());
    return (name, labels) => metricIn(samples, name, labels);
  };
  return {
    url,
    redisUrl,
    metrics,
    metric: async (...of) => (await metrics())(...of),
    push: (events) =>
      fetch(`${url}/events`, {
        method: "POST",
        headers: { "content-type": "application/cloudevents-batch+json" },
        body: JSON.stringify(events),
      }),
    status: async () => (await (await read("/status")).json()) as Status,
  };
}

function metricIn(
  samples: ReturnType<typeof parseSamples>,
  name: string,
  labels: Record<string, string> = {},
): number {
  // A gauge without a value yet is not 0.
  if (!samples.some((sample) => sample.name === name)) throw new Error(`${name} has no value yet`);
  return sumOf(samples, name, labels);
}

const WAITING = ["wait", "prioritized", "active", "delayed"];

/** Resolves once no job and no staged state waits. */
export async function waitUntilSettled(daemon: DaemonAccess, deadlineMs = 240_000): Promise<void> {
  const isSettled = async () => {
    const metric = await daemon.metrics();
    const jobs = WAITING.map((state) => metric("crmsync_queue_jobs", { state }));
    return [...jobs, metric("crmsync_oldest_unsynced_age_seconds")].every((n) => n === 0);
  };
  await waitFor(isSettled, { deadlineMs, what: "all changes settled" });
}
