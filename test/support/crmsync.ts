/** The product as its users run it: real processes, real HTTP. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { spawnCrmsync, type TestProcess } from "./process.ts";
import { uniquePrefix } from "./unique-prefix.ts";
import { waitFor } from "./wait-for.ts";

const START_DEADLINE_MS = 90_000;

export interface SandboxProcess extends AsyncDisposable {
  readonly process: TestProcess;
  readonly url: string;
  readonly token: string;
  readonly faultsUrl: string;
  /** All relations, terminated ones included, by crmCode. */
  relations(): Promise<Map<string, Record<string, unknown>>>;
  /** How many requests were answered, by `<operation> <status>`. */
  requests(): Promise<Record<string, number>>;
}

/** Limits so wide that no test meets them unless it wants to. */
const WIDE = ["--per-hour", "1000000", "--burst", "100000"];

export async function startSandbox(
  args: readonly string[] = WIDE,
  db = ":memory:",
): Promise<SandboxProcess> {
  const process = spawnCrmsync([
    "sandbox",
    "--port",
    "0",
    "--db",
    db,
    "--faults",
    "--json",
    ...args,
  ]);
  const [line] = await process.line(/^\{.*"url".*\}$/, START_DEADLINE_MS);
  const { url, token, faultsUrl } = JSON.parse(line) as Record<
    "url" | "token" | "faultsUrl",
    string
  >;
  const get = async (path: string) =>
    (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).json();
  return {
    process,
    url,
    token,
    faultsUrl,
    async relations() {
      const found = new Map<string, Record<string, unknown>>();
      let cursor = "";
      do {
        const page = (await get(
          `/v1.1/business-relations?pageSize=5000&includeTerminated=true${cursor}`,
        )) as { businessRelations: Record<string, unknown>[]; nextCursor?: string | null };
        for (const relation of page.businessRelations) {
          found.set(String(relation["crmCode"]), relation);
        }
        cursor = page.nextCursor ? `&cursor=${encodeURIComponent(page.nextCursor)}` : "";
      } while (cursor !== "");
      return found;
    },
    async requests() {
      const counts = (await (await fetch(`${faultsUrl}/requests`)).json()) as {
        operations: Record<string, Record<string, number>>;
      };
      return Object.fromEntries(
        Object.entries(counts.operations).flatMap(([operation, statuses]) =>
          Object.entries(statuses).map(([status, n]) => [`${operation} ${status}`, n]),
        ),
      );
    },
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

/** Settings of a tenant of its own on the tests' Redis, with a quota that holds nothing up. */
export const envFor = (
  service: { readonly url: string; readonly token: string },
  extra: Readonly<Record<string, string>> = {},
) => ({
  REDIS_URL: inject("redisUrl"),
  QUEUE_PREFIX: uniquePrefix(),
  SERVICE_BASE_URL: service.url,
  SERVICE_TOKEN: service.token,
  QUOTA_PER_HOUR: "100000",
  QUOTA_BURST: "1000",
  QUOTA_BURST_MS: "100",
  ...extra,
});

export interface DaemonProcess extends AsyncDisposable {
  readonly process: TestProcess;
  readonly url: string;
  readonly redisUrl: string;
  /** The sum of a metric's series whose labels contain all of `labels`. */
  metric(name: string, labels?: Record<string, string>): Promise<number>;
  push(events: readonly unknown[]): Promise<Response>;
}

export async function startDaemon(
  env: Record<string, string>,
  args: readonly string[] = [],
): Promise<DaemonProcess> {
  const process = spawnCrmsync(["start", "--json", ...args], {
    env: { HTTP_PORT: "0", INGEST_AUTH: "none", LOG_LEVEL: "warn", ...env },
  });
  const [line] = await process.line(/^\{.*"redisUrl".*\}$/, START_DEADLINE_MS);
  const { url, redisUrl } = JSON.parse(line) as { url: string; redisUrl: string };
  return {
    process,
    url,
    redisUrl,
    metric: async (name, labels = {}) => sumOf(await text(`${url}/metrics`), name, labels),
    push: (events) =>
      fetch(`${url}/events`, {
        method: "POST",
        headers: { "content-type": "application/cloudevents-batch+json" },
        body: JSON.stringify(events),
      }),
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

const text = async (url: string): Promise<string> => (await fetch(url)).text();

function sumOf(metrics: string, name: string, labels: Record<string, string>): number {
  let sum = 0;
  let known = false;
  for (const line of metrics.split("\n")) {
    const match = /^([\w:]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match?.[1] !== name) continue;
    known = true;
    const has = Object.entries(labels).every(([k, v]) => match[2]?.includes(`${k}="${v}"`));
    if (has) sum += Number(match[3]);
  }
  // A gauge that is not there yet is not 0.
  if (!known) throw new Error(`${name} is not known yet`);
  return sum;
}

/** Resolves once nothing waits: not in the inbox, not staged, not on its way. */
export async function waitUntilSettled(daemon: DaemonProcess, deadlineMs = 120_000): Promise<void> {
  await waitFor(
    async () =>
      (await daemon.metric("crmsync_queue_jobs", { state: "wait" })) +
        (await daemon.metric("crmsync_queue_jobs", { state: "prioritized" })) +
        (await daemon.metric("crmsync_queue_jobs", { state: "active" })) +
        (await daemon.metric("crmsync_queue_jobs", { state: "delayed" })) +
        (await daemon.metric("crmsync_oldest_unsynced_age_seconds")) ===
      0,
    { deadlineMs, what: "all changes settled" },
  );
}

export interface TempDir extends AsyncDisposable {
  readonly path: string;
}

export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), "crmsync-test-"));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 10 }),
  };
}

let eventNumber = 0;

/** An event as a CRM would send it, with the time of now unless told. */
export function personEvent(
  crmCode: string,
  fields: Record<string, unknown> = {},
  envelope: Record<string, unknown> = {},
): Record<string, unknown> & { source: string; id: string } {
  eventNumber += 1;
  return {
    specversion: "1.0",
    id: `${process.pid}-${eventNumber}`,
    source: "/crm/test",
    type: "crm.record.updated",
    subject: `contact/${crmCode}`,
    time: new Date().toISOString(),
    data: {
      record: { type: "Person", crmCode, firstName: "Ada", lastName: "Muster", ...fields },
    },
    ...envelope,
  };
}
