import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { spawnCrmsync } from "../support/process.ts";

/** The service that SERVICE_BASE_URL and SERVICE_TOKEN name; without them a sandbox of our own. */
export const isSandbox = process.env["SERVICE_BASE_URL"] === undefined;

/**
 * A foreign service is asked slowly: 16 requests in 5 s unless SERVICE_PAUSE_MS says otherwise.
 * The suite spends fewer than 1000, so that one run fits an hour's quota.
 */
const FOREIGN_PAUSE_MS = Number(process.env["SERVICE_PAUSE_MS"] ?? 320);

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, if it is JSON. */
  readonly json: Record<string, unknown>;
}

export interface Ask {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface Service extends AsyncDisposable {
  readonly token: string;
  /** @param path relative to the version prefix */
  readonly ask: (method: string, path: string, ask?: Ask) => Promise<Answer>;
  /** A crmCode that no other run and no other test uses. */
  readonly freshCode: () => string;
}

export async function openService(sandboxFlags: string[] = ROOMY): Promise<Service> {
  const { SERVICE_BASE_URL, SERVICE_TOKEN } = process.env;
  if (SERVICE_BASE_URL !== undefined) {
    if (SERVICE_TOKEN === undefined) throw new Error("SERVICE_BASE_URL needs SERVICE_TOKEN");
    return createService(SERVICE_BASE_URL, SERVICE_TOKEN, FOREIGN_PAUSE_MS, async () => {});
  }
  const sandbox = spawnCrmsync([
    ..."sandbox --port 0 --db :memory: --json".split(" "),
    ...sandboxFlags,
  ]);
  const [line] = await sandbox.line(/^\{.*\}$/);
  const { url, token } = JSON.parse(line) as { url: string; token: string };
  return createService(url, token, 0, () => sandbox[Symbol.asyncDispose]());
}

const ROOMY = ["--per-hour", "1000000", "--burst", "1000000"];

function createService(
  baseUrl: string,
  token: string,
  pauseMs: number,
  close: () => PromiseLike<void>,
): Service {
  const run = randomBytes(5).toString("hex");
  let codes = 0;
  return {
    token,
    freshCode: () => `conformance-${run}-${(codes += 1)}`,
    async ask(method, path, { body, headers = {} } = {}) {
      if (pauseMs > 0) await delay(pauseMs);
      const response = await fetch(`${baseUrl}/v1.1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: parse(text) };
    },
    async [Symbol.asyncDispose]() {
      await close();
    },
  };
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
