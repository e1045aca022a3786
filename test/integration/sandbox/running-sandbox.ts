import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { startSandbox, type Sandbox, type SandboxOptions } from "../../../src/sandbox/serve.ts";

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body, which must be JSON; {} for an empty one. */
  readonly json: Record<string, unknown>;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Replaces the token of the sandbox. */
  readonly token?: string;
  /** Source address of the connection. */
  readonly from?: string;
}

export interface RunningSandbox extends AsyncDisposable {
  readonly sandbox: Sandbox;
  /** @param target the request target, sent unchanged */
  readonly request: (
    method: string,
    target: string,
    options?: RequestOptions,
  ) => Promise<HttpResponse>;
}

export const RELATIONS = "/v1.1/business-relations";
const ROOMY = { perHour: 1_000_000, burst: 1_000_000 };

export const person = (crmCode: string, fields: object = {}): Record<string, unknown> => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
  ...fields,
});

/** Runs a sandbox in this process; `await using` closes it. */
export async function runSandbox(options: SandboxOptions = {}): Promise<RunningSandbox> {
  const sandbox = await startSandbox({ limits: ROOMY, ...options });
  return {
    sandbox,
    request: (method, target, options = {}) =>
      send(sandbox.url, method, target, { token: sandbox.token ?? "", ...options }),
    [Symbol.asyncDispose]: () => sandbox.close(),
  };
}

/** Sends one request over node:http, which changes neither path nor headers, on a new connection. */
export function send(
  url: string,
  method: string,
  target: string,
  options: RequestOptions,
): Promise<HttpResponse> {
  const { hostname, port } = new URL(url);
  const { body, token, from } = options;
  const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
  const request = httpRequest({
    hostname,
    port,
    method,
    path: target,
    agent: false,
    ...(from !== undefined && { localAddress: from }),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...options.headers,
    },
  });
  request.on("error", reject);
  request.on("response", (response) => {
    text(response)
      .then((received) => ({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: received,
        json: (received === "" ? {} : JSON.parse(received)) as Record<string, unknown>,
      }))
      .then(resolve, reject);
  });
  request.end(
    body === undefined || typeof body === "string" || Buffer.isBuffer(body)
      ? body
      : JSON.stringify(body),
  );
  return promise;
}
