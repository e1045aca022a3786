import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { startSandbox } from "../support/crmsync.ts";

/** False when SERVICE_BASE_URL and SERVICE_TOKEN name an external service to test. */
export const isSandbox = process.env["SERVICE_BASE_URL"] === undefined;

/**
 * Pause before each request to an external service. The default gives at most 16 requests in 5 s.
 * The suite sends fewer than 1000, so that one run fits into an hour's quota.
 */
const EXTERNAL_PAUSE_MS = Number(process.env["SERVICE_PAUSE_MS"] ?? 320);

export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, if it is JSON. */
  readonly json: Record<string, unknown>;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface Service extends AsyncDisposable {
  readonly token: string;
  /** @param path relative to the version prefix */
  readonly request: (
    method: string,
    path: string,
    options?: RequestOptions,
  ) => Promise<HttpResponse>;
  /** A crmCode that no other run and no other test uses. */
  readonly freshCode: () => string;
}

export async function openService(limits?: string[]): Promise<Service> {
  const { SERVICE_BASE_URL, SERVICE_TOKEN } = process.env;
  if (SERVICE_BASE_URL !== undefined) {
    if (SERVICE_TOKEN === undefined) throw new Error("SERVICE_BASE_URL needs SERVICE_TOKEN");
    return createService(SERVICE_BASE_URL, SERVICE_TOKEN, EXTERNAL_PAUSE_MS, async () => {});
  }
  const sandbox = await startSandbox(limits && { limits });
  return createService(sandbox.url, sandbox.token, 0, () => sandbox[Symbol.asyncDispose]());
}

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
    async request(method, path, { body, headers = {} } = {}) {
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
